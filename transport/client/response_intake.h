// The responses of one connection's calls.

#ifndef VERBENA_TRANSPORT_CLIENT_RESPONSE_INTAKE_H_
#define VERBENA_TRANSPORT_CLIENT_RESPONSE_INTAKE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "transport/client/client_call.h"
#include "transport/client/client_call_slots.h"
#include "transport/client/client_shared.h"
#include "transport/client/sent_calls.h"
#include "transport/session/frame_assembly.h"

namespace verbena::transport {

// Turns RESPONSEs, and METADATA before them, into the ends of calls. Poller
// thread only.
class ResponseIntake {
 public:
  ResponseIntake(ClientShared& shared, SentCalls& sent)
      : shared_(shared), connection_(shared.connection), sent_(sent) {}
  ResponseIntake(const ResponseIntake&) = delete;
  ResponseIntake& operator=(const ResponseIntake&) = delete;

  // Handles a RESPONSE that is a message and nothing else.
  void HandlePlain(absl::Span<const uint8_t> frame);
  // Handles any RESPONSE. `whole`, if not null, is the memory of a frame that
  // was continued.
  void Handle(absl::Span<const uint8_t> frame, const Buffer* whole);
  // Whether `frame` is a part of one that was continued.
  bool IsPart(absl::Span<const uint8_t> frame) {
    return assembly_.Concerns(frame);
  }
  void HandlePart(absl::Span<const uint8_t> frame);
  void HandleMetadata(absl::Span<const uint8_t> frame);

 private:
  // False, and ends the connection, if a reply's parts in its lease are not as
  // the server sent them.
  bool CheckParts(uint8_t flags, absl::Span<const uint8_t> message,
                  absl::Span<const uint8_t> attachment);
  // Opens the parts in the lease; false, and ends the connection, if they are
  // not as the server sealed them.
  bool OpenParts(uint8_t flags, const Buffer& lease,
                 absl::Span<uint8_t> message, absl::Span<uint8_t> attachment);
  // The response has those that came before it, if they are all there; false,
  // after a ProtocolError(), if it has others as well.
  bool AddTrailing(const IncomingMetadata& metadata, CallResponse* response);

  ClientShared& shared_;
  Connection& connection_;  // The shared one.
  SentCalls& sent_;
  FrameAssembly assembly_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_RESPONSE_INTAKE_H_
