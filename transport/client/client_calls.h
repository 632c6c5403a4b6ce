// The client's end of a connection: its open calls.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/client/client_admission.h"
#include "transport/client/client_call.h"
#include "transport/client/client_shared.h"
#include "transport/client/client_streams.h"
#include "transport/client/request_sender.h"
#include "transport/client/response_intake.h"
#include "transport/client/sent_calls.h"
#include "transport/device/memory_gauges.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Gives each call, each frame of the server, and each event of the connection
// to the class that handles it. Poller thread only.
class ClientCalls final : private CallTable {
 public:
  // `on_change` is called when calls may be started, when the server says
  // GOAWAY, and when the connection begins to close: in the middle of things,
  // so it must not enter the connection.
  ClientCalls(Poller& poller, PollerDevice& device, MemoryDomain& memory,
              CmId id, PollerDevice::QueuePair queue_pair,
              const EndpointOptions& options, std::function<void()> on_change);
  ClientCalls(const ClientCalls&) = delete;
  ClientCalls& operator=(const ClientCalls&) = delete;
  ~ClientCalls();

  Connection& connection() { return shared_.connection; }
  const Connection& connection() const { return shared_.connection; }

  // The server answered `request` with `reply`: sends HELLO. Calls may start
  // when the WELCOME has come.
  absl::Status Begin(const ConnectRequest& request, const ConnectReply& reply);

  // Before Begin(): leases have windows. Fails as LeaseWindows::Open().
  absl::Status LendThroughWindows() {
    return shared_.arenas.LendThroughWindows(connection().memory().pd());
  }

  // See ClientConnection.
  void Start(ClientCall* call) {
    if (!requests_.StartSmall(call)) StartSlow(call);
  }
  void Cancel(ClientCall* call, const absl::Status& reason);

  // The server said GOAWAY, and so does this side: no REQUEST is sent any more.
  bool draining() const { return draining_; }
  const ClientAdmission& admission() const { return admission_; }
  // See ClientArenas.
  BufferSource own_source() { return shared_.arenas.own_source(); }
  uint32_t open_calls() const {
    return sent_.live() + shared_.waiting_small.size() +
           shared_.waiting_large.size();
  }
  size_t max_open_calls() const { return shared_.slots.size(); }
  bool nearly_full() const { return open_calls() + 1 >= shared_.slots.size(); }

 private:
  // As CallTable.
  void OnFrame(absl::Span<const uint8_t> frame, bool plain) override;
  bool SendWaiting() override;
  void OnInvalidated(uint32_t rkey) override {
    shared_.arenas.windows().NoteInvalidated(rkey);
  }
  void OnTransferDone(void* tag) override {
    if (tag != nullptr) shared_.arenas.OnTakenBack(tag);
  }
  void OnClosing() override;
  void OnTick(absl::Time now) override;
  absl::Time NextTick() const override;
  Keepalive::Silence silence() const override {
    return sent_.live() > 0 ? Keepalive::Silence::kSuspicious
                            : Keepalive::Silence::kFine;
  }
  void OnGoAway() override;
  // The answers that the server sent before: those calls did not fail.
  bool WantsTheRest() const override { return true; }

  void HandleOpening(absl::Span<const uint8_t> frame);
  void StartSlow(ClientCall* call);
  // Why no call may start now; OK if one may.
  absl::Status WhyClosed() const;

  const std::function<void()> on_change_;
  bool draining_ = false;  // The server said GOAWAY.
  // In the order of dependence.
  ClientShared shared_;
  ClientAdmission admission_{shared_.connection};
  SentCalls sent_;
  ClientStreams streams_{shared_, sent_};
  RequestSender requests_{shared_, sent_, streams_};
  ResponseIntake responses_{shared_, sent_};
  MemoryGauges gauges_{shared_.connection.counters()};
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_CALLS_H_
