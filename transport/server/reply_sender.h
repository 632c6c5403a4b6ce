// The replies of one connection's calls.

#ifndef VERBENA_TRANSPORT_SERVER_REPLY_SENDER_H_
#define VERBENA_TRANSPORT_SERVER_REPLY_SENDER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/server/server_call.h"
#include "transport/server/server_metadata.h"
#include "transport/server/server_shared.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Sends RESPONSEs: in one SEND, in several, or with parts WRITTEN into memory
// that the client lends. Whatever a reply lacks (a credit, a lease, memory), it
// waits for that in one of the lines. Poller thread only.
class ReplySender {
 public:
  ReplySender(ServerShared& shared, ServerMetadata& metadata)
      : shared_(shared), connection_(shared.connection), metadata_(metadata) {}
  ReplySender(const ReplySender&) = delete;
  ReplySender& operator=(const ReplySender&) = delete;

  // The WELCOME is sent: the limits of both sides are known.
  void OnOpen();

  // See ServerCall::BeginReply() and SendReply().
  uint8_t* BeginPlain(ServerCall* call, uint64_t message_bytes);
  void SendPlain(ServerCall* call);

  // Sends the content of the call's reply, now or when it can.
  void Send(ServerCall* call);
  // OK if the reply may be sent to this client.
  absl::Status Check(const ServerReply& reply) const;

  // Ends the call with an error of the transport's own.
  void Refuse(ServerCall* call, absl::Status status);
  // Ends a call about which nothing was done, and says so.
  void RefuseUnprocessed(ServerCall* call);
  // Makes an error the content of the reply, which is still to be sent.
  static void SetRefusal(ServerCall* call, absl::Status status);
  // As SetRefusal(), for a call that waits for a credit.
  static void RefuseQueued(ServerCall* call, absl::Status status);

  // Handles the LEASE that a reply has asked for.
  void HandleLease(const LeaseHeader& header, ServerCall* call);
  // Goes on with a reply that awaits memory of ours; false if there is still
  // none.
  bool PlaceReply(ServerCall* call);
  // A WRITE of the reply is posted.
  void OnWritePosted(ServerCall* call);
  // Sends the frames that wait for credits, as far as it can.
  void SendFrames();

 private:
  // Sends the call's next frame, now or when there is a credit.
  void QueueFrame(ServerCall* call, ServerCallState state);
  bool SendQueued(ServerCall* call);
  void SendPending(ServerCall* call, uint8_t* out);
  void SendResponse(ServerCall* call, uint8_t* out);
  // Sends a RESPONSE that does not fit one SEND as several; false if it can't.
  bool SendContinued(ServerCall* call);
  // Returns how many bytes fit a RESPONSE beside its header.
  uint64_t Room() const { return connection_.SendRoom() - kHeaderBytes; }
  // The status message as far as it is sent.
  absl::string_view StatusText(const ServerReply& reply) const;
  // Returns the length of the RESPONSE, without what is WRITTEN.
  uint32_t FrameBytes(ServerCall* call) const;
  // Writes the RESPONSE to `out`, which has room for FrameBytes(). Returns how
  // much that is.
  uint32_t WriteResponse(ServerCall* call, uint8_t* out);
  // Copies the parts of the reply that go in the RESPONSE, and notes those that
  // do not in `flags`. Returns the end of what it has written.
  static uint8_t* WriteParts(CallReply* reply, uint8_t* out, uint8_t* flags);
  // Frees a call whose RESPONSE is written. Its writer, if there is one, is to
  // be told once that is sent.
  ReplyWriter* EndCall(ServerCall* call);

  // --- Parts that are WRITTEN: see reply_sender_writes_datapath.cc ---

  // WRITEs a reply for which there is a lease, when there is memory.
  void AwaitMemory(ServerCall* call);
  void StartWrites(ServerCall* call);
  // Whether parts are sealed.
  bool seals() const { return connection_.sealer() != nullptr; }
  bool PlaceSealed(ServerCall* call);
  // WRITEs all of `source` to that place in the lease; `sum` becomes its
  // checksum, if frames have any. If parts are sealed, `sealed` has room for
  // it with its tags.
  void StartWrite(ServerCall* call, Buffer source, uint64_t lease_offset,
                  uint32_t* sum, Buffer* sealed);

  static constexpr uint32_t kHeaderBytes = sizeof(ResponseHeader);

  ServerShared& shared_;
  Connection& connection_;  // The shared one.
  ServerMetadata& metadata_;
  // The longest message of a reply that goes the short way.
  uint64_t plain_message_max_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_REPLY_SENDER_H_
