// ResponseIntake: parts of replies that were WRITTEN into a lease.

#include "transport/client/response_intake.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Copies both parts from the lease, and opens the copies. The tags of each
// stand behind it.
bool ResponseIntake::OpenParts(uint8_t flags, const Buffer& lease,
                               absl::Span<uint8_t> message,
                               absl::Span<uint8_t> attachment) {
  Opener* const opener = connection_.opener();
  const uint64_t first = connection_.received_first_chunk();
  const bool message_in_lease = (flags & kFlagMessageInArena) != 0;
  // A part that is empty was not taken over, for want of memory.
  if (message_in_lease && !message.empty() &&
      !PartSeal(opener, first, message, lease.data() + message.size(),
                lease.data())
           .OpenAll()) {
    connection_.NotOpened("the message of a reply", message.size());
    return false;
  }
  if ((flags & kFlagAttachmentInArena) == 0 || attachment.empty()) return true;
  const uint64_t behind = message_in_lease ? message.size() : 0;
  uint8_t* const sealed =
      lease.data() + AlignPart(ReplyLeaseBytes(true, behind, 0));
  if (!PartSeal(opener, first + SealChunks(behind), attachment,
                sealed + attachment.size(), sealed)
           .OpenAll()) {
    connection_.NotOpened("the attachment of a reply", attachment.size());
    return false;
  }
  return true;
}

// The message is a copy that nobody else can change; the attachment is the
// lease itself.
bool ResponseIntake::CheckParts(uint8_t flags,
                                absl::Span<const uint8_t> message,
                                absl::Span<const uint8_t> attachment) {
  const PartSums stated = connection_.received_sums();
  // A part that is in the frame is covered by the frame's own sum.
  PartSums found = stated;
  // A part that is empty was not taken over, for want of memory.
  if ((flags & kFlagMessageInArena) != 0 && !message.empty()) {
    found.message = Crc32c(message);
  }
  if ((flags & kFlagAttachmentInArena) != 0 && !attachment.empty()) {
    found.attachment = Crc32c(attachment);
  }
  if (found.message != stated.message) {
    connection_.PartDamaged("the message of a reply", message.size(),
                            stated.message, found.message);
  } else if (found.attachment != stated.attachment) {
    connection_.PartDamaged("the attachment of a reply", attachment.size(),
                            stated.attachment, found.attachment);
  }
  return connection_.usable();
}

}  // namespace verbena::transport
