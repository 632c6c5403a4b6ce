// The client's side of each plan of the verbs layer.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/echo_loop.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// Calls that are chained into as few doorbells as there are polls. What a plan
// has of its own is below.
class VerbsPipe : public EchoPipe {
 public:
  // What the client needs for `hello`.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello);

  // Posts the receives; to be made before the connection is. `end` must outlive
  // the pipe.
  static std::unique_ptr<VerbsPipe> Create(VerbsEnd& end,
                                           const VerbsHello& hello,
                                           const Case& measured);

  // The server's memory. Once, when connected.
  void set_welcome(const VerbsWelcome& welcome) { welcome_ = welcome; }

  absl::Status Poll(Sink& sink, absl::Time until) final;

 protected:
  // `receive_base`: where the receive slots begin in the end's memory.
  VerbsPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured,
            size_t receive_base, uint64_t receive_bytes);

  // A SEND has arrived at `bytes`, whose receive is posted again after this.
  virtual void OnReceive(Sink& sink, absl::Span<const uint8_t> bytes) = 0;
  // More requests than before are complete.
  virtual void OnSendsComplete(Sink& /*sink*/) {}

  // Whether what comes back in a slot has to be compared.
  bool MustCompare() { return case_.validate || !compared_; }

  VerbsEnd& end_;
  const VerbsHello hello_;
  const Case case_;
  const std::string payload_;
  const uint64_t stride_;
  VerbsWelcome welcome_;
  bool compared_ = false;  // The contents of an echo were found right.
  uint64_t calls_ = 0;     // For stamps.

 private:
  int PollOnce(Sink& sink);
  void PostAgain(uint64_t slot);

  const size_t receive_base_;
  const uint64_t receive_stride_;
  const uint32_t receive_batch_;
  std::vector<ibv_wc> completions_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_PIPE_H_
