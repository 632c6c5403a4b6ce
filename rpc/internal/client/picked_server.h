// The server of an attempt, which counts it and hears how it went.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_PICKED_SERVER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_PICKED_SERVER_H_

#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/balancer.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/clock.h"
#include "transport/base/counter.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"

namespace verbena::internal {

// A server that a balancer has picked. Lives longer than its attempts.
//
// All functions but the counters REQUIRE the poller's ownership.
class PickedServer {
 public:
  // An attempt of a call, from when a connection has it until that has let go
  // of it. Costs a null check if no balancer has picked the server.
  class Attempt {
   public:
    // `timed`: the time that it takes says something of the server.
    void Begin(PickedServer* server, bool timed) {
      server_ = server;
      if (ABSL_PREDICT_TRUE(server == nullptr)) return;
      server->begun_.Add();
      counts_ = server->wants_results_;
      begun_ = counts_ && timed ? base::Now() : kNotTimed;
    }
    void EndWith(const transport::CallResponse& response) {
      if (ABSL_PREDICT_TRUE(server_ == nullptr)) return;
      End(KnownCode(response.code), !response.unprocessed, response.metadata);
    }
    // For an attempt that the transport has ended with `code`. The end of one
    // that the caller has given up says nothing of the server.
    void EndWith(absl::StatusCode code) {
      if (ABSL_PREDICT_TRUE(server_ == nullptr)) return;
      End(code, code != absl::StatusCode::kCancelled, {});
    }
    // For an attempt that no server has seen.
    void EndUnsent() {
      if (ABSL_PREDICT_TRUE(server_ == nullptr)) return;
      End(absl::StatusCode::kUnavailable, /*counts=*/false, {});
    }

   private:
    static constexpr absl::Time kNotTimed = absl::InfiniteFuture();

    void End(absl::StatusCode code, bool counts,
             absl::Span<const uint8_t> trailing) {
      PickedServer& server = *std::exchange(server_, nullptr);
      server.ended_.Add();
      if (!counts || !counts_ || !server.wants_results_) return;
      const absl::Time now = base::Now();
      server.OnResult({.code = code,
                       .time = now,
                       .latency = begun_ == kNotTimed ? absl::ZeroDuration()
                                                      : now - begun_},
                      trailing);
    }

    PickedServer* server_ = nullptr;
    bool counts_ = false;
    absl::Time begun_;
  };

  // Attempts that have begun, and of those the ones that have ended. Any
  // thread, which reads the second first: see Counter::value().
  uint64_t begun() const { return begun_.value(); }
  uint64_t ended() const { return ended_.value(); }

 protected:
  PickedServer() = default;
  ~PickedServer() = default;

  // Whether OnResult() is called.
  void set_wants_results(bool wants) { wants_results_ = wants; }

 private:
  // An attempt has ended, with these trailing metadata, and says something of
  // the server. `result` has no load yet.
  virtual void OnResult(Balancer::Result result,
                        absl::Span<const uint8_t> trailing) = 0;

  base::Counter begun_;
  base::Counter ended_;
  bool wants_results_ = false;
};

// A connection for a call. `server` is null if no balancer has picked it.
struct Picked {
  transport::ClientConnection* connection = nullptr;
  PickedServer* server = nullptr;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_PICKED_SERVER_H_
