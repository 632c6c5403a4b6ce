// The requests of one connection, from the frame to the handler.

#ifndef VERBENA_TRANSPORT_SERVER_REQUEST_INTAKE_H_
#define VERBENA_TRANSPORT_SERVER_REQUEST_INTAKE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/server/reply_sender.h"
#include "transport/server/server_call.h"
#include "transport/server/server_metadata.h"
#include "transport/server/server_shared.h"
#include "transport/server/server_streams.h"
#include "transport/session/frame_assembly.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Turns REQUESTs into calls at their handler: checks the ranges that they name
// against the client's arenas, READs what lies there, and refuses those that
// are not served. Poller thread only.
class RequestIntake {
 public:
  RequestIntake(ServerShared& shared, ServerMetadata& metadata,
                ServerStreams& streams, ReplySender& replies)
      : shared_(shared),
        connection_(shared.connection),
        metadata_(metadata),
        streams_(streams),
        replies_(replies) {}
  RequestIntake(const RequestIntake&) = delete;
  RequestIntake& operator=(const RequestIntake&) = delete;

  // Whether further calls of the client are served. They are no more once it
  // has said GOAWAY, or after RefuseCalls(): those that come then are answered
  // as not processed.
  bool takes_calls() const { return policy_ == Policy::kServe; }
  void RefuseCalls() {
    if (takes_calls()) policy_ = Policy::kRefuse;
  }
  // The client has said that it makes no more calls.
  void ForbidCalls() { policy_ = Policy::kForbid; }

  // Handles a REQUEST that is a message and nothing else.
  void HandlePlain(absl::Span<const uint8_t> frame);
  // Handles any REQUEST. `whole`, if not null, is the memory of a frame that
  // was continued.
  void Handle(absl::Span<const uint8_t> frame, Buffer* whole);
  // Whether `frame` is a part of one that was continued.
  bool IsPart(absl::Span<const uint8_t> frame) {
    return assembly_.Concerns(frame);
  }
  void HandlePart(absl::Span<const uint8_t> frame);
  // How many frames were begun, if one is not here in full.
  std::optional<uint64_t> unfinished() const { return assembly_.unfinished(); }

  // Lets large requests whose turn has come wait for memory.
  void StartTurns();
  // Starts the READs of a request that waits for memory; false if there is
  // still none.
  bool StartReads(ServerCall* call);
  // A READ of the request has ended.
  void OnReadDone(ServerCall* call);
  // Takes a call that waits for its turn or for memory out of its line.
  void StopWaiting(ServerCall* call);

 private:
  // Treatment of a REQUEST that comes.
  enum class Policy : uint8_t {
    kServe,
    kRefuse,  // Answers that nothing was done.
    kForbid,  // Ends the connection: the client has said GOAWAY.
  };

  void RefuseTooLarge(ServerCall* call, uint64_t bytes);
  // Begins a call: the part that all requests have in common.
  void Begin(const RequestHeader& header, ServerCall* call);
  absl::Time DeadlineAfter(uint64_t timeout_us) const;
  // Finds the ranges that a request names; false, after a ProtocolError(), if
  // they do not lie in the client's arenas.
  bool FindRanges(const RequestHeader& header, uint32_t lease_rkey,
                  ServerCall* call);
  bool FindLease(const RequestHeader& header, uint32_t lease_rkey,
                 CallReply* reply);
  void TakeInlineAttachment(ServerCall* call,
                            absl::Span<const uint8_t> attachment,
                            const Buffer* whole);
  // READs the parts of a request that lie in the client's arenas, now or when
  // it can. `message` is in the frame, and is copied.
  void AwaitTurn(ServerCall* call, const RequestHeader& header,
                 absl::Span<const uint8_t> message);
  void AwaitMemory(ServerCall* call);
  // READs a part of that length into all of `sink`, which must stay; `sum`
  // becomes its checksum, if frames have any. If the part is sealed, its first
  // chunk has that number, and `sink` becomes the part without its tags.
  void StartRead(ServerCall* call, Buffer* sink, uint32_t bytes,
                 const RemoteArenas::RemoteRange& source, uint64_t first_chunk,
                 uint32_t* sum);
  // Ends the connection if a part that was READ is not as the client sent it.
  void CheckParts(const CallRequest& request);

  ServerShared& shared_;
  Connection& connection_;  // The shared one.
  ServerMetadata& metadata_;
  ServerStreams& streams_;
  ReplySender& replies_;
  Policy policy_ = Policy::kServe;
  FrameAssembly assembly_;
  // Large requests that wait for memory or are being READ: at most
  // kLargeReadsMax, the others wait for their turn.
  uint32_t large_reads_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_REQUEST_INTAKE_H_
