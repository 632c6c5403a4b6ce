// The server's end of a connection: the calls of one client.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/credentials.h"
#include "transport/polling/poller_threads.h"
#include "transport/server/reply_sender.h"
#include "transport/server/request_intake.h"
#include "transport/server/server_admission.h"
#include "transport/server/server_call.h"
#include "transport/server/server_metadata.h"
#include "transport/server/server_shared.h"
#include "transport/server/server_streams.h"
#include "transport/server/stall_guard.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Gives each frame of a client, and each event of its connection, to the class
// that handles it.
//
// The client can reach none of our memory: the queue pair allows no remote
// access. Every range that the client names is checked against its arenas.
// `handler` must outlive it. Poller thread only.
class ServerCalls final : private CallTable {
 public:
  ServerCalls(Poller& poller, PollerThreads& threads, PollerDevice& device,
              CmId id, PollerDevice::QueuePair queue_pair,
              const EndpointOptions& options, const ConnectRequest& request,
              AdmissionTerms terms, ServerHandler& handler);
  ServerCalls(const ServerCalls&) = delete;
  ServerCalls& operator=(const ServerCalls&) = delete;
  ~ServerCalls();

  Connection& connection() { return shared_.connection; }
  const Connection& connection() const { return shared_.connection; }

  // To be called right after Accept().
  absl::Status Begin() { return connection().FixQueuePair(); }

  // Calls whose RESPONSE has not been sent.
  uint32_t open_calls() const { return shared_.slots.open_calls(); }
  void VisitCalls(absl::FunctionRef<void(const ServerCall&)> visitor) const {
    shared_.slots.VisitOpen([visitor](ServerCall* call) { visitor(*call); });
  }

  // See RequestIntake.
  bool takes_calls() const { return intake_.takes_calls(); }
  void RefuseCalls() { intake_.RefuseCalls(); }

  // --- For ServerCall ---

  PollerThreads& threads() { return threads_; }
  const ServerAdmission& admission() const { return admission_; }
  const BulkShare& memory() const { return shared_.memory; }
  ReplySender& replies() { return replies_; }
  ServerMetadata& metadata() { return metadata_; }
  void Finish(ServerCall* call, ServerReply&& reply);

 private:
  // As CallTable.
  void OnFrame(absl::Span<const uint8_t> frame, bool plain) override;
  bool SendWaiting() override;
  void OnTransferDone(void* tag) override;
  void OnClosing() override;
  bool InUse() const override { return shared_.slots.handling() > 0; }
  void OnGoAway() override { intake_.ForbidCalls(); }
  // A BYE that says that bytes were damaged.
  bool WantsTheRest() const override { return connection().expects_sums(); }
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  // The client watches over its own calls; a silent one costs nothing but its
  // reservation, and is noticed all the same.
  Keepalive::Silence silence() const override {
    return open_calls() > 0 ? Keepalive::Silence::kSuspicious
                            : Keepalive::Silence::kIdle;
  }

  void HandleArena(absl::Span<const uint8_t> frame);
  void HandleLease(absl::Span<const uint8_t> frame);
  void HandleCancel(absl::Span<const uint8_t> frame);
  // Moves on those that wait for their turn or for memory.
  void StartTransfers();
  // Posts parts of the READs and WRITEs under way.
  void PostChunks();
  // Takes the attachments of calls that wait out of registered memory, if that
  // was short since the last time: one that held memory while it waits for the
  // client, or for more memory, could wait for ever.
  void FreeHeldMemory();

  PollerThreads& threads_;
  ServerHandler& handler_;
  // In the order of dependence.
  ServerShared shared_;
  ServerAdmission admission_;
  ServerMetadata metadata_{shared_};
  ReplySender replies_{shared_, metadata_};
  ServerStreams streams_{shared_, replies_};
  RequestIntake intake_{shared_, metadata_, streams_, replies_};
  StallGuard stalls_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_CALLS_H_
