// A call as the server's transport sees it.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/auth_context.h"
#include "transport/base/buffer.h"
#include "transport/base/check.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/limits.h"
#include "transport/polling/poller.h"
#include "transport/polling/poller_threads.h"
#include "transport/server/server_call_parts.h"
#include "transport/server/server_call_state.h"
#include "transport/streams/message_stream.h"

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

// A call that a client has made, from ServerHandler::OnCall() until Finish().
// Owned by its connection's table, which outlives it even if the client is
// gone.
//
// Methods may be called from any thread, one at a time, unless they say
// otherwise.
class ServerCall : public base::ListLink<ServerCall> {
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
  absl::Span<const uint8_t> message() const { return request_.message; }
  absl::Span<const uint8_t> metadata() const {
    return absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(metadata_.text.data()),
        metadata_.text.size());
  }
  bool owns_message() const { return request_.owns_message; }
  // Gives the memory of a large message back early.
  void ReleaseMessage() { request_.ReleaseMessage(); }
  // Gives the memory of long metadata back early.
  void ReleaseMetadata() {
    if (metadata_.text.capacity() > kFrameMetadataBytes) metadata_.text = {};
  }

  // Bytes beside the message, always valid until Finish(); empty if there are
  // none. Take them to keep them longer, or to send them back without a copy.
  const Buffer& attachment() const { return request_.attachment; }
  Buffer TakeAttachment() { return std::move(request_.attachment); }

  // Its messages, if the client streams; else null. Its owner is to be set from
  // inside OnCall(), and to null before Finish(). What was written goes out
  // before the status. It is over when the call was cancelled.
  MessageStream* stream() const { return stream_.messages.get(); }

  // Whether the caller has lost interest, or its stream has failed.
  // Thread-safe.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // On the poller's thread: what it waits for, whether its RESPONSE has yet to
  // be sent, and whether its handler has it.
  ServerCallState state() const { return state_; }
  bool is_open() const { return state_ != ServerCallState::kFree; }
  bool is_handled() const { return state_ == ServerCallState::kHandling; }

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

  using Reply = ServerReply;

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

  // --- For the classes of transport/server alone ---

  explicit ServerCall(ServerCalls& calls) : calls_(calls) {}

  // The only way from one state to another.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Transition(ServerCallState to) {
    CHECK(IsLegalTransition(state_, to));
    state_ = to;
  }
  uint32_t id() const { return id_; }
  // A client has begun the call.
  void Begin(uint32_t id, uint64_t method_id, absl::Time deadline) {
    id_ = id;
    method_id_ = method_id;
    deadline_ = deadline;
    cancelled_.store(false, std::memory_order_relaxed);
  }
  // Metadata of the call `id` have come, and nothing else yet.
  void set_id(uint32_t id) { id_ = id; }
  void set_cancelled() { cancelled_.store(true, std::memory_order_relaxed); }
  // When the deadline has passed for the client as well, whose own may be that
  // much later.
  absl::Time expiry() const { return deadline_ + Poller::kNowAgeMax; }

  CallRequest& request() { return request_; }
  CallMetadata& metadata_part() { return metadata_; }
  CallStream& stream_part() { return stream_; }
  CallReply& reply() { return reply_; }

 private:
  ServerCalls& calls_;
  void* user_ = nullptr;
  ServerCallState state_ = ServerCallState::kFree;
  uint32_t id_ = 0;
  uint64_t method_id_ = 0;
  absl::Time deadline_;
  std::atomic<bool> cancelled_{false};
  CallRequest request_;
  CallMetadata metadata_;
  CallStream stream_;
  CallReply reply_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALL_H_
