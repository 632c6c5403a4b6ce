// A call as the server's transport sees it.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/auth_context.h"
#include "transport/base/buffer.h"
#include "transport/base/limits.h"
#include "transport/polling/poller.h"
#include "transport/polling/poller_threads.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/frame.h"
#include "transport/wire/placement.h"
#include "transport/wire/remote_arenas.h"

namespace verbena::transport {

class ServerCall;
class ServerCalls;

// Receives the calls of a server. The methods are called on the thread of the
// poller that the call's connection belongs to.
class ServerHandler {
 public:
  // A call has come. Finish() is owed, from inside or later. Must not block.
  virtual void OnCall(ServerCall* call) = 0;

  // The caller has lost interest, or is gone; Finish() is owed all the same.
  virtual void OnCancelled(ServerCall* call) = 0;

  // A connection ended before its client had proven who it is, to a server that
  // wants to know.
  virtual void OnUnauthenticated() {}

  // By each poller, about once a millisecond while it runs and before it
  // sleeps: for what could not be done when it was due. Returns when to call
  // again, at the latest. Must not block.
  virtual absl::Time OnTick() { return absl::InfiniteFuture(); }

 protected:
  ~ServerHandler() = default;
};

// Writes a reply when there is memory for it.
class ReplyWriter {
 public:
  // Writes the metadata, then the message: as many bytes as the Reply said.
  // Called at most once, on the poller.
  virtual void WriteReply(uint8_t* out) = 0;

  // The transport needs the writer no more; it may be destroyed. Called exactly
  // once after Finish(), maybe from inside it, on the poller.
  virtual void OnReplyDone() = 0;

 protected:
  ~ReplyWriter() = default;
};

// A call that a client has made, from ServerHandler::OnCall() until Finish().
// Owned by its connection's table, which outlives it even if the client is
// gone.
//
// Methods may be called from any thread, one at a time, unless they say
// otherwise.
class ServerCall {
 public:
  ServerCall(const ServerCall&) = delete;
  ServerCall& operator=(const ServerCall&) = delete;

  // Whatever the layer above keeps here, from OnCall() to Finish().
  void* user() const { return user_; }
  void set_user(void* user) { user_ = user; }

  uint64_t method_id() const { return method_id_; }
  // On this host's clock; InfiniteFuture() if there is none.
  absl::Time deadline() const { return deadline_; }

  // The request's bytes, in memory that the client can't change. If
  // owns_message(), they are valid until ReleaseMessage() or Finish(), else
  // only inside OnCall(). Metadata are valid until ReleaseMetadata() or
  // Finish().
  absl::Span<const uint8_t> message() const { return message_; }
  absl::Span<const uint8_t> metadata() const {
    return absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(metadata_.data()), metadata_.size());
  }
  bool owns_message() const { return owns_message_; }
  // Gives the memory of a large message back early.
  void ReleaseMessage();
  // Gives the memory of long metadata back early.
  void ReleaseMetadata() {
    if (metadata_.capacity() > kFrameMetadataBytes) metadata_ = {};
  }

  // Bytes beside the message, always valid until Finish(); empty if there are
  // none. Take them to keep them longer, or to send them back without a copy.
  const Buffer& attachment() const { return attachment_; }
  Buffer TakeAttachment() { return std::move(attachment_); }

  // Its messages, if the client streams; else null. Its owner is to be set from
  // inside OnCall(), and to null before Finish(). What was written goes out
  // before the status. It is over when the call was cancelled.
  MessageStream* stream() const { return stream_.get(); }

  // Whether the caller has lost interest, or its stream has failed.
  // Thread-safe.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // On the poller's thread: whether its RESPONSE has yet to be sent, whether
  // its handler has it, and what it waits for, in words for people.
  bool is_open() const { return state_ != State::kFree; }
  bool is_handled() const { return state_ == State::kHandling; }
  const char* StateName() const;

  // A name for its connection, which nothing else has until that has ended and
  // all of its calls; not to be looked into.
  const void* connection() const { return &calls_; }
  const std::string& peer() const;
  const std::string& device_name() const;
  // The client's identity; null if the server did not want to know it.
  const std::shared_ptr<const AuthContext>& auth_context() const;
  Poller& poller() const;

  // Has the thread that polls run `task` soon, and lend the poller meanwhile:
  // see PollerThreads. Returns false, and does nothing, if that may take long.
  // Poller thread only.
  [[nodiscard]] bool PostShort(ShortTask* task);

  // Registered memory for a reply of more than kFrameReplyBytes. UNAVAILABLE
  // when there is none just now, here or at the client: then pass a writer to
  // Finish(), which waits for it. RESOURCE_EXHAUSTED when it is too much for
  // this server. Not for a reply with an attachment: it would hold memory while
  // it waits for more.
  absl::StatusOr<Buffer> AllocateReply(size_t bytes);

  // Memory for the attachment of a reply: registered if there is some just now.
  // Also while others use this object.
  Buffer AllocateAttachment(size_t bytes) const;
  // As AllocateAttachment(), for a part of a long message of the stream. Empty
  // if there is no memory at all.
  Buffer AllocatePart(size_t bytes) const;
  // Whether an attachment is in such memory, so that it goes without a copy.
  bool IsRegistered(const Buffer& buffer) const;

  struct Reply {
    // If not OK, there must be no message and no attachment; metadata may.
    absl::Status status;
    uint32_t metadata_bytes = 0;  // At most kFrameMetadataBytes.
    // Metadata that are longer; then `metadata_bytes` is 0.
    std::string long_metadata;
    uint64_t message_bytes = 0;
    // Either a writer or a buffer, unless there is nothing to write. The
    // buffer, from AllocateReply(), holds metadata and message already.
    ReplyWriter* writer = nullptr;
    Buffer buffer;
    Buffer attachment;  // Any; see IsRegistered().
  };

  // Sends initial metadata before all else of the answer; once at most, before
  // Finish() and not with BeginReply(), on the poller's thread. Releases the
  // writes of the stream, if it has one. REQUIRES: CheckMetadata() accepts
  // them.
  void SendInitialMetadata(std::string metadata);

  // Most bytes of metadata of one kind that the client takes.
  uint32_t client_max_metadata_bytes() const;
  // RESOURCE_EXHAUSTED if the client takes no metadata of so many bytes; `kind`
  // is "trailing" or "initial".
  absl::Status CheckMetadata(absl::string_view kind, uint64_t bytes) const;

  // RESOURCE_EXHAUSTED if it is too long for this server or this client. What
  // is given to Finish() all the same, the client hears in those words.
  absl::Status CheckReply(const Reply& reply) const;

  // Ends the call; exactly once, on the poller's thread. The call is the
  // transport's again at once: only `reply.writer` hears of the rest.
  void Finish(Reply reply);

  // The short way to end it, on the poller's thread too, with a good reply that
  // is a message of `message_bytes` and nothing else: returns the memory of the
  // frame to write the message to, if it can be sent at once; then call
  // SendReply(). Else returns null, and Finish() is owed.
  uint8_t* BeginReply(uint64_t message_bytes);
  // Sends what BeginReply() made room for; the call is the transport's again.
  // REQUIRES: nothing else was done with the call's poller in between.
  void SendReply();

 private:
  friend class ServerCalls;
  template <typename Call>
  friend class CallQueue;

  // Where a call stands; each with who moves it on.
  enum class State : uint8_t {
    kFree,               // A REQUEST.
    kAwaitsMemory,       // Memory for the request, when there is some.
    kReading,            // The last READ.
    kHandling,           // Finish().
    kDraining,           // What the handler wrote to its stream being sent.
    kPendingQueued,      // Its RESPONSE_PENDING, when there is a credit.
    kAwaitsLease,        // A LEASE, a CANCEL, or time that is over.
    kAwaitsReplyMemory,  // Memory for the reply, when there is some.
    kWriting,            // The last WRITE being posted.
    kReplyQueued,        // Its RESPONSE, when there is a credit.
  };

  explicit ServerCall(ServerCalls& calls) : calls_(calls) {}

  ServerCalls& calls_;
  void* user_ = nullptr;
  ServerCall* next_ = nullptr;  // Its neighbours in the queue it waits in.
  ServerCall* previous_ = nullptr;
  State state_ = State::kFree;
  uint32_t call_id_ = 0;
  uint64_t method_id_ = 0;
  absl::Time deadline_;
  std::atomic<bool> cancelled_{false};

  // Which of the request's metadata came before it: see "Metadata" in frame.h.
  enum class Ahead : uint8_t { kNone, kPart, kAll };
  Ahead metadata_ahead_ = Ahead::kNone;  // Those of call_id_.
  std::string metadata_;
  // The server's own, of which so much is sent.
  std::string initial_metadata_;
  bool initial_due_ = false;
  size_t metadata_sent_ = 0;  // Bytes sent of the metadata under way.
  absl::Span<const uint8_t> message_;
  bool owns_message_ = false;
  std::string held_message_;  // From the frame, while the attachment is READ.
  Buffer request_;            // Sinks of the READs.
  Buffer attachment_;
  RemoteArenas::RemoteRange request_source_;
  RemoteArenas::RemoteRange attachment_source_;
  uint32_t request_bytes_ = 0;     // To be READ.
  uint32_t attachment_bytes_ = 0;  // To be READ.
  uint8_t transfers_left_ = 0;     // READs to end, or WRITEs to be posted.

  // Sums that the REQUEST states for the parts that are READ.
  PartSums stated_sums_;
  // Sums of the parts that were READ; from Finish() on, of those WRITTEN. Zero
  // without checksums.
  PartSums part_sums_;

  // Where the long messages of a stream may be written.
  struct StreamLease {
    uint16_t arena = 0;
    uint32_t offset = 0;
    uint32_t bytes = 0;
    RemoteArenas::RemoteRange range;
  };
  std::unique_ptr<MessageStream> stream_;
  bool streamed_ = false;  // Whether it had a stream.
  std::vector<StreamLease> stream_leases_;
  bool lease_to_come_ = false;  // If there is none, the client lends another.
  // The long message that is being written there: how many of its parts are not
  // posted, and whether all are, and only its MESSAGE is not sent.
  StreamLease writing_to_;
  uint8_t writes_left_ = 0;
  bool is_written_ = false;
  bool read_waits_ = false;  // For memory to READ a long message into.
  // READs of long messages to end, and WRITEs to be posted.
  uint32_t stream_transfers_ = 0;

  RemoteArenas::RemoteRange lease_;  // Where the reply may be written.
  uint32_t lease_bytes_ = 0;
  uint32_t lease_rkey_ = 0;      // To be invalidated; 0 if it has no key.
  bool lease_asked_ = false;     // RESPONSE_PENDING was sent, no LEASE came.
  absl::Time lease_asked_time_;  // When it was sent.

  uint32_t plain_reply_bytes_ = 0;  // As passed to BeginReply().
  Reply reply_;                     // From Finish() on.
  uint32_t reply_attachment_bytes_ = 0;
  Placement reply_place_;
  bool reply_written_ = false;  // The WRITEs to the lease are posted.
  bool unprocessed_ = false;    // Nothing was done; the RESPONSE says so.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_
