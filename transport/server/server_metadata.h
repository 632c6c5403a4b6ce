// Metadata that do not go in REQUEST and RESPONSE.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_METADATA_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_METADATA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/server/server_call.h"
#include "transport/server/server_shared.h"

namespace verbena::transport {

// Receives and sends METADATA: see "Metadata" in frame.h. Poller thread only.
class ServerMetadata {
 public:
  explicit ServerMetadata(ServerShared& shared)
      : shared_(shared), connection_(shared.connection) {}

  // Handles METADATA of a request that is still to come.
  void Handle(absl::Span<const uint8_t> frame);
  // Takes over the metadata that came before the REQUEST of a call, beside
  // `inline_metadata` in it. False, after a ProtocolError(), if they do not go
  // together.
  bool Take(uint32_t call_id, absl::Span<const uint8_t> inline_metadata,
            ServerCall* call);

  // See ServerCall::SendInitialMetadata().
  void QueueInitial(ServerCall* call, std::string metadata);
  // Sends the initial metadata that wait, as far as it can.
  void SendInitial();
  // Whether the call has metadata that go in METADATA before its RESPONSE.
  static bool IsDue(ServerCall& call) {
    return call.metadata_part().initial_due ||
           !call.reply().content.long_metadata.empty();
  }
  // Sends these metadata as far as it can; false if not all are sent.
  bool Send(ServerCall* call);

  // See ServerCall::CheckMetadata().
  absl::Status Check(absl::string_view kind, uint64_t bytes) const;

 private:
  bool Send(ServerCall* call, const std::string& metadata, uint8_t flags);

  ServerShared& shared_;
  Connection& connection_;  // The shared one.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_METADATA_H_
