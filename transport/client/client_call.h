// A call as the client's transport sees it.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

class MessageStream;

// The server's answer. Views point into memory that is the transport's again
// when OnResponse() returns.
struct CallResponse {
  absl::StatusCode code = absl::StatusCode::kOk;
  absl::Span<const uint8_t> status_message;
  absl::Span<const uint8_t> metadata;  // Trailing.
  absl::Span<const uint8_t> message;   // Empty when `code` is an error.
  // Null if there is none. To be moved from by who wants to keep it: its bytes
  // are the lease that the server wrote to, and may still write to. All else is
  // out of the server's reach.
  Buffer* attachment = nullptr;
  // How long a reply_hint_bytes would have been right.
  uint64_t hint_bytes = 0;
  // The server says that it has done nothing about the call; `code` is
  // UNAVAILABLE. It may be made elsewhere.
  bool unprocessed = false;
};

// Implemented by the layer above. Owned by it too, and alive from
// ClientConnection::Start() until OnResponse(), OnUnsent() or OnFailed() has
// been entered; exactly one of these is called, once. All methods are called on
// the poller's thread; they may start further calls, and may destroy this
// object.
class ClientCall : public base::ListLink<ClientCall> {
 public:
  struct Request {
    uint64_t method_id = 0;
    // When the call ends with DEADLINE_EXCEEDED, on this host's clock. The
    // server learns the time that remains.
    absl::Time deadline = absl::InfiniteFuture();
    uint32_t metadata_bytes = 0;  // At most kFrameMetadataBytes.
    uint8_t flags = 0;            // Of the REQUEST: kFlagStream, or none.
    uint64_t message_bytes = 0;   // Serialised size.
    // How long the reply may become with its attachment, if the caller has an
    // idea: it saves a round trip for replies beyond kFrameReplyBytes.
    uint64_t reply_hint_bytes = 0;
    // Bytes that go beside the message. They must stay as they are until the
    // call ends; they are copied once, if they are not in `attachment_buffer`.
    absl::Span<const uint8_t> attachment;
    // If not null, `attachment` is all of it. One of this connection's memory
    // is sent as it stands, and shared with the transport until the server has
    // answered, even if the call ends before.
    const Buffer* attachment_buffer = nullptr;
    // Metadata that are longer than kFrameMetadataBytes; `metadata_bytes` is 0
    // then. They must stay as they are until the call ends.
    absl::Span<const uint8_t> long_metadata;
  };

  const Request& request() const { return request_; }

  // Writes the metadata, then the message: exactly request().metadata_bytes +
  // request().message_bytes to `out`. Called at most once a Start(), when room
  // is found; not at all if the call fails before.
  virtual void WriteRequest(uint8_t* out) = 0;

  // The server's initial metadata, which are the transport's again on return.
  // At most once, before any message of the answer; not if there are none. What
  // is not OK ends the call. Must not enter the connection.
  virtual absl::Status OnInitialMetadata(
      absl::Span<const uint8_t> /*metadata*/) {
    return absl::OkStatus();
  }

  virtual void OnResponse(const CallResponse& response) = 0;

  // The connection is gone, or takes no more calls, and the REQUEST was never
  // posted: the server knows nothing of the call, and never will. `why` is what
  // OnFailed() would be told. It may be started on another connection, but not
  // from inside this.
  virtual void OnUnsent(const absl::Status& why) { OnFailed(why); }

  // The transport ended the call: DEADLINE_EXCEEDED, CANCELLED, UNAVAILABLE
  // (the connection is gone, and the server may have run the call),
  // RESOURCE_EXHAUSTED (too large).
  virtual void OnFailed(const absl::Status& status) = 0;

  // --- For the classes of transport/client alone ---

  // Where the call stands at its connection.
  struct Link {
    // `slot` of a call that has none yet: not started, or in a line.
    static constexpr uint32_t kIdle = UINT32_MAX;
    static constexpr uint32_t kQueued = UINT32_MAX - 1;
    uint32_t slot = kIdle;  // Index of its call slot.
    // The slot to which its long metadata go while it is kQueued, or kIdle, and
    // how much of them is there.
    uint32_t metadata_slot = kIdle;
    uint32_t metadata_sent = 0;
    // All of the request fits its frame. Known while it is kQueued.
    bool fits_frame = true;
  };
  Link& link() { return link_; }
  const Link& link() const { return link_; }
  MessageStream* stream() const { return stream_; }

 protected:
  ClientCall() = default;
  ~ClientCall() = default;

  // The messages of this call go by `stream`, which must outlive it. That is
  // open from when the REQUEST is sent until OnResponse() or OnFailed().
  void set_stream(MessageStream* stream) {
    stream_ = stream;
    request_.flags = kFlagStream;
  }

  Request request_;  // To be filled before Start().

 private:
  MessageStream* stream_ = nullptr;  // Null unless it streams.
  Link link_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_CALL_H_
