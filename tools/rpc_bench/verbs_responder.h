// The server's side of each plan of the verbs layer.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"

namespace verbena::bench {

// Answers one client. One thread.
class VerbsResponder {
 public:
  // What the server needs for `hello`. `chunk_bytes`: the longest request that
  // the device takes.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello,
                                      uint64_t chunk_bytes);

  // Posts the receives; to be made before the client is accepted. `end` must
  // outlive the responder.
  static std::unique_ptr<VerbsResponder> Create(VerbsEnd& end,
                                                const VerbsHello& hello,
                                                uint64_t chunk_bytes);

  virtual ~VerbsResponder() = default;

  // Takes what has come and answers it. Returns how much that was. Errors are
  // in the end's status.
  int Poll();

 protected:
  explicit VerbsResponder(VerbsEnd& end);

  virtual void OnReceive(const ibv_wc& completion) = 0;
  virtual void OnReadComplete() {}
  // After everything of one poll.
  virtual void OnPolled() {}

  VerbsEnd& end_;

 private:
  std::vector<ibv_wc> completions_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_
