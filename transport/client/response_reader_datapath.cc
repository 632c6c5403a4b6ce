#include <cstring>
#include <utility>

#include "transport/client/response_reader.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Checks that the lease holds what the header says before it reads there.
// An attachment is shared where it can be, a message in the lease is
// always copied.
const char* ReadResponse(absl::Span<const uint8_t> frame, const Buffer* whole,
                         Buffer lease, ClientArenas& arenas,
                         CallResponse* response, Buffer* message,
                         Buffer* attachment) {
  const auto header = LoadHeader<ResponseHeader>(frame);
  const ResponseBody body = SplitResponse(frame);
  response->unprocessed = (header.frame.flags & kFlagUnprocessed) != 0;
  response->code = static_cast<absl::StatusCode>(header.code);
  response->status_message = body.status_message;
  response->metadata = body.metadata;
  response->message = body.message;
  const bool message_in_lease = header.frame.flags & kFlagMessageInArena;
  const bool attachment_in_lease = header.frame.flags & kFlagAttachmentInArena;
  const bool sealed = arenas.seals_parts();
  const uint64_t needed =
      ReplyLeaseBytes(sealed, message_in_lease ? header.message_bytes : 0,
                      attachment_in_lease ? header.attachment_bytes : 0);
  if (needed > lease.size()) {
    return "it wrote a reply that is longer than its lease";
  }
  // The next reply of the method may need a lease of that length, or none.
  response->hint_bytes =
      needed > 0 ? needed
                 : uint64_t{header.message_bytes} + header.attachment_bytes;
  if (message_in_lease && header.message_bytes > 0) {
    *message = AllocatePartSlow(header.message_bytes, arenas, response);
    // Without memory the call ends with an error, but the frame was right.
    if (message->empty()) return nullptr;
    if (!sealed) std::memcpy(message->data(), lease.data(), message->size());
    response->message = message->span();
  }
  if (header.attachment_bytes == 0) return nullptr;
  if (attachment_in_lease) {
    lease.Narrow(message_in_lease ? AlignPart(ReplyLeaseBytes(
                                        sealed, header.message_bytes, 0))
                                  : 0,
                 header.attachment_bytes);
    if (sealed) {
      *attachment = AllocatePartSlow(header.attachment_bytes, arenas, response);
      if (attachment->empty()) return nullptr;
    } else {
      *attachment = std::move(lease);
    }
  } else if (whole != nullptr) {
    *attachment = whole->Share();
    attachment->Narrow(whole->size() - header.attachment_bytes,
                       header.attachment_bytes);
  } else {
    *attachment = arenas.AllocateOwn(header.attachment_bytes);
    std::memcpy(attachment->data(), body.attachment.data(),
                header.attachment_bytes);
  }
  response->attachment = attachment;
  return nullptr;
}

}  // namespace verbena::transport
