#include "transport/client/response_reader.h"

#include "absl/strings/string_view.h"

namespace verbena::transport {

Buffer AllocatePartSlow(size_t bytes, ClientArenas& arenas,
                        CallResponse* response) {
  Buffer buffer = arenas.AllocatePrivate(bytes);
  if (buffer.empty()) {
    static constexpr absl::string_view kText =
        "no memory for the reply (see `ulimit -v`)";
    response->code = absl::StatusCode::kResourceExhausted;
    response->status_message = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(kText.data()), kText.size());
    response->message = {};
  }
  return buffer;
}

}  // namespace verbena::transport
