// The parts of a call at the server, each kept by one class.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALL_PARTS_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALL_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/base/limits.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/frame.h"
#include "transport/wire/placement.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

// The error of a client that lent memory which is not its own.
inline constexpr char kLeaseOutsideArenas[] =
    "it lent memory for a reply outside its arenas";

// Writes a reply when there is memory for it.
class ReplyWriter {
 public:
  // Writes the metadata, then the message: as many bytes as the ServerReply
  // said. Called at most once, on the poller.
  virtual void WriteReply(uint8_t* out) = 0;

  // The transport needs the writer no more; it may be destroyed. Called exactly
  // once after Finish(), maybe from inside it, on the poller.
  virtual void OnReplyDone() = 0;

 protected:
  ~ReplyWriter() = default;
};

// The answer of a handler.
struct ServerReply {
  // If not OK, there must be no message and no attachment; metadata may.
  absl::Status status;
  uint32_t metadata_bytes = 0;  // At most kFrameMetadataBytes.
  // Metadata that are longer; then `metadata_bytes` is 0.
  std::string long_metadata;
  uint64_t message_bytes = 0;
  // Either a writer or a buffer, unless there is nothing to write. The
  // buffer, from ServerCall::AllocateReply(), holds metadata and message.
  ReplyWriter* writer = nullptr;
  Buffer buffer;
  Buffer attachment;  // Any; goes without a copy if it is registered.
};

// The request, kept by RequestIntake.
struct CallRequest {
  absl::Span<const uint8_t> message;
  bool owns_message = false;  // `memory` or `held_message` has it.
  uint8_t reads_left = 0;     // READs that have not ended.
  // Lengths of the parts that are READ; 0 if the frame brought them.
  uint32_t message_bytes = 0;
  uint32_t attachment_bytes = 0;
  Buffer memory;  // Holds the message.
  Buffer attachment;
  std::string held_message;  // From the frame, while the attachment is READ.
  RemoteArenas::RemoteRange message_source;
  RemoteArenas::RemoteRange attachment_source;
  // Sums that the REQUEST states for the parts that are READ, and those that
  // were found.
  PartSums stated_sums;
  PartSums read_sums;
  uint64_t first_chunk = 0;  // The number of the first chunk that was sealed.
  bool opens = true;         // Of the parts that were READ and sealed.

  // Whether the request waits for its turn to be READ.
  bool is_large() const {
    return uint64_t{message_bytes} + attachment_bytes >= kLargeReadBytes;
  }
  void ReleaseMessage() {
    message = {};
    if (owns_message) ReleaseOwnMessage();
  }
  void Release() {
    ReleaseMessage();
    attachment.Reset();
  }

 private:
  void ReleaseOwnMessage();
};

// Metadata that go in METADATA, kept by ServerMetadata.
struct CallMetadata {
  // How much of the request's metadata came before it: see "Metadata" in
  // frame.h.
  enum class Ahead : uint8_t { kNone, kPart, kAll };

  std::string text;  // The request's.
  Ahead ahead = Ahead::kNone;
  bool initial_due = false;  // `initial` is to be sent.
  std::string initial;
  size_t sent = 0;  // Bytes sent of the metadata under way.
};

// The stream, kept by ServerStreams.
struct CallStream {
  // A place where the long messages of the stream may be written.
  struct Lease {
    uint16_t arena = 0;
    uint32_t offset = 0;
    uint32_t bytes = 0;
    RemoteArenas::RemoteRange range;
  };

  std::unique_ptr<MessageStream> messages;  // Null if the call has no stream.
  bool streamed = false;                    // Whether it had one.
  std::vector<Lease> leases;
  bool lease_to_come = false;  // If there is none, the client lends another.
  // The long message that is being written: where, how many of its parts are
  // not posted, and whether all are and its MESSAGE is still to be sent.
  Lease writing_to;
  uint8_t writes_left = 0;
  bool is_written = false;
  bool read_waits = false;  // For memory to READ a long message into.
  // READs of long messages to end, and WRITEs to be posted.
  uint32_t transfers = 0;

  // Whether all that the handler has written is sent.
  bool drained() const { return transfers == 0 && messages->sent_all(); }
};

// The reply, kept by ReplySender.
struct CallReply {
  // Every call touches these; the rest is for replies that are not plain.
  uint32_t lease_bytes = 0;
  uint32_t lease_rkey = 0;   // To be invalidated; 0 if it has no key.
  uint32_t plain_bytes = 0;  // As passed to ServerCall::BeginReply().
  uint32_t attachment_bytes = 0;
  bool written = false;      // All WRITEs of it are posted.
  bool unprocessed = false;  // Nothing was done; the RESPONSE says so.
  bool lease_asked = false;  // RESPONSE_PENDING was sent, no LEASE came.
  uint8_t writes_left = 0;   // WRITEs to be posted.
  Placement place;
  ServerReply content;              // From Finish() on.
  RemoteArenas::RemoteRange lease;  // Where the reply may be written.
  absl::Time lease_asked_time;      // When RESPONSE_PENDING was sent.
  std::string metadata;             // Those beside a message that is WRITTEN.
  PartSums written_sums;            // Zero without checksums.

  uint64_t first_chunk = 0;  // As of a request.
  // Memory for parts that are sealed, until their WRITEs start.
  Buffer sealed_message;
  Buffer sealed_attachment;

  // Returns the bytes that the lease must hold.
  uint32_t LeaseNeeded(bool sealed) const;
  // Drops the content but for its status, and tells its writer.
  void Release();
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALL_PARTS_H_
