// The client's side of the verbs layer, once connected.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/echo_loop.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// Calls of one case, chained into as few doorbells as there are polls.
//
// The end's memory: a slot for each call with what it sends, for a bulk echo
// another for what comes back, and for a small echo the receives.
class VerbsPipe final : public EchoPipe {
 public:
  // What the client needs for `hello`.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello);

  // Posts the receives; to be made before the connection is. `end` must outlive
  // the pipe.
  VerbsPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured);

  // What the server has said. Once, when connected.
  void set_server(const VerbsHello& server) { server_ = server; }

  void Start(int slot) override;
  absl::Status Poll(Sink& sink, absl::Time until) override;

 private:
  // Returns how much has come.
  size_t PollOnce(Sink& sink);
  void Send(int slot);
  void OnReceive(Sink& sink, const ibv_wc& completion);
  // Ends the calls of a stream whose requests are complete.
  void EndSent(Sink& sink);
  void PostAgain(uint64_t receive);

  // Slots count from the start of the memory: those of the calls, then others.
  size_t Offset(uint64_t slot) const { return stride_ * slot; }
  absl::Span<uint8_t> Slot(uint64_t slot) const {
    return {end_.memory() + Offset(slot), hello_.size_bytes};
  }

  VerbsEnd& end_;
  const VerbsHello hello_;
  const Op op_;
  const uint64_t stride_;
  VerbsHello server_;
  EchoCheck check_;
  std::deque<int> waiting_;             // For the server's receives.
  std::deque<int> under_way_;           // In the order of their requests.
  std::vector<uint64_t> last_request_;  // Each slot's latest.
  uint64_t granted_;  // SENDs of a stream that the server has receives for.
  uint64_t sent_ = 0;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_
