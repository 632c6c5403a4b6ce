// The server's side of the verbs layer, once connected.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"

namespace verbena::bench {

// Answers one client. One thread.
//
// A small echo goes back from the slot that it arrived in; there are more slots
// than receives, so that others are posted while the answers leave. A bulk echo
// has a slot for each call, a stream of SENDs one for each receive.
class VerbsResponder {
 public:
  // What the server needs for `hello`. `chunk_bytes`: the longest request that
  // the device takes; what is longer goes in several.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello,
                                      uint64_t chunk_bytes);

  // Posts the receives; to be made before the client is accepted. `end` must
  // outlive the responder.
  VerbsResponder(VerbsEnd& end, const VerbsHello& hello, uint64_t chunk_bytes);

  // Takes what has come and answers it. Returns whether that was anything.
  // Errors are in the end's status.
  bool Poll();

 private:
  void OnReceive(const ibv_wc& completion);
  void Echo(const ibv_wc& completion);
  void Fetch(uint32_t slot);
  void OnReadComplete();
  // READs say that they are complete; nobody waits for WRITEs.
  void Move(uint32_t slot, ibv_wr_opcode opcode, uint64_t remote_slot);
  void PostReceives();

  VerbsEnd& end_;
  const VerbsHello hello_;
  const uint64_t chunk_bytes_;
  const uint64_t stride_;
  const uint32_t batch_;          // Receives that are posted again together.
  uint32_t unposted_;             // Receives that are to be posted.
  std::vector<uint32_t> free_;    // Slots for them.
  std::deque<uint32_t> reading_;  // Slots in the order of their READs.
  // Slots whose bytes may still be needed, with the last request of each.
  std::deque<std::pair<uint32_t, uint64_t>> leaving_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_RESPONDER_H_
