// The requests of one connection's calls.

#ifndef VERBENA_TRANSPORT_CLIENT_REQUEST_SENDER_H_
#define VERBENA_TRANSPORT_CLIENT_REQUEST_SENDER_H_

#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/rare_warning.h"
#include "transport/client/client_call.h"
#include "transport/client/client_shared.h"
#include "transport/client/client_streams.h"
#include "transport/client/sent_calls.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

// Sends REQUESTs: in one SEND, in several, or with parts in the arenas. A call
// that finds no slot, credit or memory waits in one of the lines. Poller thread
// only.
class RequestSender {
 public:
  RequestSender(ClientShared& shared, SentCalls& sent, ClientStreams& streams)
      : shared_(shared),
        connection_(shared.connection),
        sent_(sent),
        streams_(streams) {}
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;

  // The WELCOME has come: requests go, by the limits of both sides, until
  // Stop().
  void Open();
  void Stop() { accepts_ = false; }

  // Sends the request if it goes the short way and can go now; false if not.
  bool StartSmall(ClientCall* call) {
    return IsSmall(call->request()) && shared_.waiting_small.empty() &&
           SendSmall(call);
  }
  // Sends any request, or has it wait, or ends a call that is refused.
  // REQUIRES: the connection takes calls.
  void Start(ClientCall* call);
  // Ends a call that waits in a line.
  void Cancel(ClientCall* call, const absl::Status& reason);
  // Sends the requests that wait, as far as it can.
  void SendQueued(base::IntrusiveList<ClientCall>* line);
  // Ends the calls that wait: they may be started elsewhere.
  void ReturnUnsent(const absl::Status& why);
  // Ends the calls that wait and whose deadline has passed.
  void EndExpired(absl::Time now);

 private:
  // Whether calls may start, and the request goes the short way: it is all in
  // the frame and needs no memory of the arenas.
  bool IsSmall(const ClientCall::Request& request) const {
    return FitsFrame(request) && request.long_metadata.empty();
  }
  // As IsSmall(), for a request whose long metadata, if it has any, are sent.
  bool FitsFrame(const ClientCall::Request& request) const {
    return accepts_ && request.message_bytes <= small_bytes_max_ &&
           request.metadata_bytes <= small_metadata_max_ &&
           request.metadata_bytes + request.message_bytes <= small_bytes_max_ &&
           request.attachment.empty() &&
           request.reply_hint_bytes <= kFrameReplyBytes;
  }
  // Sends the REQUEST of a call that FitsFrame(); false if it has to wait.
  bool SendSmall(ClientCall* call);
  // Sends the REQUEST of any call, or ends the call; false if it has to wait.
  bool SendAny(ClientCall* call) {
    return call->request().long_metadata.empty() ? Send(call)
                                                 : SendBehindMetadata(call);
  }
  bool Send(ClientCall* call);
  // As Send(), but sends the long metadata first: see
  // request_sender_metadata.cc.
  bool SendBehindMetadata(ClientCall* call);
  // Sends as much of the long metadata as it can, to a slot that is reserved.
  // Returns false if that is not all.
  bool SendMetadata(ClientCall* call);
  // The call does not begin here. Frees the slot that was reserved for its
  // metadata, and has the server forget those that were sent.
  void DropMetadata(ClientCall* call);
  // Gets memory of the arenas for the parts that `placement` puts there.
  // `ended` is set if the call has failed for want of it. False if the call
  // does not go now.
  bool Allocate(ClientCall* call, Placement placement, CallMemory* memory,
                bool* ended);
  // Binds a window to the lease in `memory` ahead of a REQUEST of that length,
  // which can then be sent; false if there is no room for both.
  bool Lend(uint64_t frame_bytes, uint32_t spare_credits, CallMemory* memory);
  // Returns which parts of the request go into the frame.
  Placement Place(const ClientCall::Request& request) const;
  // Why this call may not start; OK if it may.
  absl::Status Refusal(const ClientCall::Request& request) const;
  void Wait(ClientCall* call);
  // How a call ends that waited for too long; `large` is the line it was in.
  absl::Status NeverSent(bool large) const;

  ClientShared& shared_;
  Connection& connection_;  // The shared one.
  SentCalls& sent_;
  ClientStreams& streams_;
  bool accepts_ = false;  // The connection is open and the server not draining.
  // The longest metadata and message together that go the short way, and the
  // longest metadata that do.
  uint64_t small_bytes_max_ = 0;
  uint64_t small_metadata_max_ = 0;
  base::RareWarning unsent_;  // For calls that expired before they were sent.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_REQUEST_SENDER_H_
