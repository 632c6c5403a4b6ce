#include "transport/connection/response_reader.h"

#include <new>

#include "absl/strings/string_view.h"

namespace verbena::transport {

Buffer AllocateMessageSlow(size_t bytes, CallResponse* response) {
  try {
    return Buffer::Plain(bytes);
  } catch (const std::bad_alloc&) {
    static constexpr absl::string_view kText =
        "no memory for the reply (see `ulimit -v`, and memory.max of the "
        "control group)";
    response->code = absl::StatusCode::kResourceExhausted;
    response->status_message = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(kText.data()), kText.size());
    response->message = {};
    return Buffer();
  }
}

}  // namespace verbena::transport
