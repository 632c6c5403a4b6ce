// A device that only writes down what it is asked. For tests.

#ifndef VERBENA_TRANSPORT_VERBS_FAKE_VERBS_H_
#define VERBENA_TRANSPORT_VERBS_FAKE_VERBS_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// A work request that was posted, with its only scatter element.
struct FakeWorkRequest {
  uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;  // Sends only.
  unsigned int flags = 0;
  uint64_t address = 0;
  uint32_t length = 0;
  uint32_t lkey = 0;
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  int doorbell = 0;     // The call to post it, counted from 0.
  uint32_t qp_num = 0;  // For a receive: its queue pair; 0 if shared.

  bool signalled() const { return (flags & IBV_SEND_SIGNALED) != 0; }
  bool is_inline() const { return (flags & IBV_SEND_INLINE) != 0; }
};

// A table of control verbs, and a context whose data path leads to the same
// fake device. Its destructor aborts if something was made and not destroyed.
// It does not notice that what is destroyed is in use: a test asks for that
// failure by `destroy_error`.
//
// Must outlive everything that is made with it. Not thread-safe.
class FakeVerbs : private ibv_context {
 public:
  FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;
  ~FakeVerbs();

  const VerbsOps& table() const { return table_; }
  ibv_context* context() { return this; }
  // A queue pair of the device, in no particular state.
  ibv_qp* qp() { return &qp_; }
  // From now on it is a device of iWARP.
  void BeIwarp() { device_.transport_type = IBV_TRANSPORT_IWARP; }

  // Whether everything that was made has been destroyed, once each.
  bool empty() const { return live_.empty(); }
  // Appends an event of `cq` to `channel`.
  void PushEvent(ibv_comp_channel* channel, ibv_cq* cq);

  int make_error = 0;  // If not 0, nothing can be made, for this reason.
  // If not 0, nothing can be destroyed; EIO says that it has gone already.
  int destroy_error = 0;
  int post_error = 0;  // If not 0, nothing can be posted.
  int notify_error = 0;
  int unacked = 0;  // Completion events taken and not acknowledged.
  int looks = 0;    // Calls to get_cq_event.
  int armed = 0;    // Calls to req_notify_cq.

  // For CmOps::create_qp: gives an id the queue pair, unless more is asked for
  // inline than the device takes.
  static int CreateCmQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted);
  uint32_t inline_bytes = 1024;
  int inline_refusal = EINVAL;
  std::vector<uint32_t> inline_asked;

  ibv_device_attr attributes = {};  // For query_device.

  // Calls that made an object, each with the arguments that matter.
  std::vector<std::string> calls;
  std::vector<FakeWorkRequest> sends;
  std::vector<FakeWorkRequest> receives;
  std::deque<ibv_wc> completions;

 private:
  static FakeVerbs& From(ibv_context* context) {
    return *static_cast<FakeVerbs*>(context);
  }
  static VerbsOps Table();

  template <typename T>
  static T* Make(ibv_context* context, std::string call);
  template <typename T>
  static int Destroy(T* object);
  static ibv_comp_channel* MakeChannel(ibv_context* context);
  static int DestroyChannel(ibv_comp_channel* channel);
  static int GetEvent(ibv_comp_channel* channel, ibv_cq** cq,
                      void** cq_context);
  static int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
  static int PostShared(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
  static int PostOwn(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
  int PostReceive(uint32_t qp_num, ibv_recv_wr* wr, ibv_recv_wr** bad);
  static int PollCompletions(ibv_cq* cq, int count, ibv_wc* completions);
  static int RequestNotify(ibv_cq* cq, int solicited_only);

  const VerbsOps table_ = Table();
  std::set<void*> live_;
  std::deque<ibv_cq*> events_;
  ibv_device device_ = {};
  ibv_qp qp_ = {};
  uint32_t next_key_ = 0x100;
  int doorbells_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_FAKE_VERBS_H_
