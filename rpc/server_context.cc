#include "rpc/server_context.h"

#include <cstring>

namespace verbena {

void ServerContext::set_response_attachment(
    absl::Span<const uint8_t> attachment) {
  Buffer buffer = AllocateBuffer(attachment.size());
  if (!attachment.empty()) {
    std::memcpy(buffer.data(), attachment.data(), attachment.size());
  }
  set_response_attachment(std::move(buffer));
}

}  // namespace verbena
