#include "rpc/server_context.h"

#include <cstring>

namespace verbena {

void ServerContext::set_response_attachment(
    absl::Span<const uint8_t> attachment) {
  response_attachment_ = AllocateBuffer(attachment.size());
  if (attachment.empty()) return;
  std::memcpy(response_attachment_.data(), attachment.data(),
              attachment.size());
}

void ServerContext::Reset(absl::Time deadline) {
  deadline_ = deadline;
  if (!client_metadata_.empty()) client_metadata_.clear();
  if (!trailing_metadata_.empty()) trailing_metadata_.clear();
}

}  // namespace verbena
