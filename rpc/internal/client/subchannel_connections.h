// The connections of a subchannel, over RDMA and over TCP.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_CONNECTIONS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_CONNECTIONS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/client/paths.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/resolution.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/client/client_connection.h"

namespace verbena::internal {

// Holds the connection that takes calls, those that are being tried, and those
// that take no new calls any more.
//
// An attempt tries the endpoints in their order, as RFC 8305 has it: the next
// one when one has failed, or beside it, Delays::next after it has begun. The
// first that is ready takes calls. If that goes by TCP, and RDMA to the same
// address becomes ready later, this takes its place.
//
// If RDMA has failed, the next attempts try TCP at once. A connection over TCP
// that has RDMA beside it is tried over RDMA again every Delays::recheck; when
// that is ready, the old one is closed after its last call.
//
// Beside the one that takes calls there may be others to further addresses of
// the same server, or to the same one, which share its calls: see Paths. If the
// first is lost, one of them takes its place.
//
// All functions REQUIRE the poller's ownership. `observer` is told as
// ClientConnection::Observer has it, and is to call Look() then; `on_change` is
// called when the timer has changed something, and is to call Look(), too. Both
// outlive this, and so do the poller and the options.
class SubchannelConnections {
 public:
  using ClientConnection = transport::ClientConnection;
  using Endpoint = Resolution::Endpoint;

  struct Delays {
    // Long enough for RDMA CM to connect on a healthy network, and short enough
    // to wait for.
    absl::Duration next = absl::Milliseconds(250);
    // For so long after RDMA has failed TCP is tried at once, and so often RDMA
    // and paths that have failed are tried again.
    absl::Duration recheck = absl::Seconds(10);
    // So often it is looked whether fewer connections to the address would do.
    absl::Duration shrink = absl::Seconds(5);
  };

  // The result of a look at all connections.
  enum class Change {
    kNothing,
    kConnected,  // current() takes calls; there was none before.
    kReplaced,   // Another connection has become current().
    kLost,       // current() takes no calls any more, and is null.
    kFailed,     // The attempt has ended without a connection: see outcome().
  };
  // The end of an attempt that has failed.
  struct Outcome {
    absl::Status first_error;
    bool was_cheap = false;      // It has cost nobody but this process.
    bool server_leaves = false;  // A server said that it is shutting down.
  };

  SubchannelConnections(SharedPoller* poller,
                        const transport::EndpointOptions& options,
                        ClientConnection::Observer* observer,
                        std::function<void()> on_change, const Delays& delays,
                        size_t max_per_address = 1);
  SubchannelConnections(const SubchannelConnections&) = delete;
  SubchannelConnections& operator=(const SubchannelConnections&) = delete;
  // REQUIRES: CloseAll() was called.
  ~SubchannelConnections() = default;

  // The connection that takes calls, or null. It may have become unusable since
  // the last Look().
  ClientConnection* current() const { return current_.connection.get(); }
  // Returns the connection for the next call: current(), or one beside it. If
  // the call fills that, has another one to the same address.
  ClientConnection* Pick() {
    ClientConnection* const picked =
        paths_.empty() ? current() : paths_.Least(current());
    if (ABSL_PREDICT_FALSE(max_per_address_ > 1) && picked != nullptr &&
        picked->nearly_full()) {
      Grow();
    }
    return picked;
  }
  // Has connections beside current(), to further addresses of its server, which
  // calls itself `server`.
  void UsePaths(std::string server, std::vector<Endpoint> endpoints) {
    server_ = std::move(server);
    further_ = std::move(endpoints);
    UsePaths();
  }
  // The calls that are open on those that take calls.
  uint32_t open_calls() const {
    return current() == nullptr ? 0
                                : current()->open_calls() + paths_.open_calls();
  }
  // How many connections take calls.
  size_t ready() const { return current() == nullptr ? 0 : 1 + paths_.ready(); }
  // How current() goes.
  const Endpoint& endpoint() const { return current_.endpoint; }
  // Whether current() goes by TCP although RDMA may lead there, and why.
  bool fell_back() const { return current() != nullptr && fell_back_; }
  const absl::Status& rdma_error() const { return rdma_error_; }

  // Begins an attempt. REQUIRES: there is no current() and no attempt.
  void Begin(std::vector<Endpoint> endpoints);

  // Looks what has become of each connection. Call it until it says kNothing.
  Change Look();
  const Outcome& outcome() const { return outcome_; }

  // Takes no calls any more, and ends the attempt. Each connection is closed
  // after its last call; nothing follows.
  void Drain();
  // Whether no connection is left.
  bool drained() const {
    return current() == nullptr && draining_.empty() && tries_.empty();
  }
  // Ends everything.
  void CloseAll();

 private:
  struct Try {
    std::unique_ptr<ClientConnection> connection;
    Endpoint endpoint;
  };
  struct Attempt {
    std::vector<Endpoint> endpoints;  // To be tried, the next one last.
    std::vector<Endpoint> rdma = {};  // Those that have a fallback.
    absl::Time next_try = absl::InfiniteFuture();
  };

  void KeepRdma(std::vector<Endpoint>* endpoints);
  // Has connections to further_, and so many more as extra_ says.
  void UsePaths();
  void Grow();
  void ClearPaths();
  // Closes one to the address if the others would do.
  void Shrink(absl::Time now);
  void StartNext();
  void Start(const Endpoint& endpoint);
  bool RdmaHasFailedLately(absl::Time now) const {
    return now < rdma_failed_ + delays_.recheck;
  }
  Change LookAtCurrent();
  Change LookAtTries();
  void Take(Try ready);
  void NoteFailure(const Try& failed);
  void Retire(std::unique_ptr<ClientConnection> connection);
  void ReapDraining();
  void Close(std::unique_ptr<ClientConnection> connection);
  void CloseTries();
  void OnTime(absl::Time now);
  void SetTimer();

  SharedPoller& poller_;
  const transport::EndpointOptions& options_;
  ClientConnection::Observer* const observer_;
  const std::function<void()> on_change_;
  const Delays delays_;
  const size_t max_per_address_;
  PollerTimer timer_;

  Try current_;
  Paths paths_;
  std::string server_;             // As in ServerAddresses, for paths_.
  std::vector<Endpoint> further_;  // Other addresses of paths_.
  size_t extra_ = 0;  // Connections of paths_ to the address of current().
  absl::Time next_shrink_ = absl::InfiniteFuture();
  bool fell_back_ = false;
  std::vector<Try> tries_;
  std::vector<std::unique_ptr<ClientConnection>> draining_;
  std::optional<Attempt> attempt_;
  Outcome outcome_;
  // The endpoint over RDMA that is tried again while current() goes by TCP.
  std::optional<Endpoint> rdma_;
  absl::Time next_recheck_ = absl::InfiniteFuture();
  absl::Time rdma_failed_ = absl::InfinitePast();
  absl::Status rdma_error_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SUBCHANNEL_CONNECTIONS_H_
