#include "tools/rpc_bench/verbs_count.h"

#include <sys/resource.h>

#include <array>
#include <atomic>
#include <map>

#include "tools/load/workload.h"

namespace verbena::bench {
namespace {

struct State {
  // The counts, by the number of the field in VerbsCost.
  // Sleeps are counted elsewhere.
  std::array<std::atomic<uint64_t>, VerbsCost::kSleepsFieldNumber + 1> counts{};
  // The original verbs of each context. Only CountVerbs() writes to it.
  std::map<const ibv_context*, ibv_context_ops> originals;
};

// Verbs are functions without an argument of ours. Never destroyed: the
// contexts live as long as the process.
State& TheState() {
  static State* const state = new State();
  return *state;
}

void Count(int field, uint64_t more = 1) {
  // Relaxed order is enough, because a count guards no other data.
  TheState().counts[field].fetch_add(more, std::memory_order_relaxed);
}

const ibv_context_ops& Original(const ibv_context* context) {
  return TheState().originals.find(context)->second;
}

// Counts one doorbell for the chain, and its work requests by opcode.
int PostSend(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** bad) {
  Count(VerbsCost::kPostSendsFieldNumber);
  for (const ibv_send_wr* work = chain; work != nullptr; work = work->next) {
    const bool is_write = work->opcode == IBV_WR_RDMA_WRITE ||
                          work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    Count(work->opcode == IBV_WR_RDMA_READ ? VerbsCost::kReadsFieldNumber
          : is_write                       ? VerbsCost::kWritesFieldNumber
                                           : VerbsCost::kSendsFieldNumber);
    for (int i = 0; i < work->num_sge; ++i) {
      Count(VerbsCost::kBytesFieldNumber, work->sg_list[i].length);
    }
  }
  return Original(qp->context).post_send(qp, chain, bad);
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  Count(VerbsCost::kPostRecvsFieldNumber);
  return Original(qp->context).post_recv(qp, chain, bad);
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  Count(VerbsCost::kPostRecvsFieldNumber);
  return Original(srq->context).post_srq_recv(srq, chain, bad);
}

// Counts polls by whether they found something, and completions of sends.
int PollCq(ibv_cq* cq, int room, ibv_wc* completions) {
  const int count = Original(cq->context).poll_cq(cq, room, completions);
  Count(count > 0 ? VerbsCost::kPollsFoundFieldNumber
                  : VerbsCost::kPollsEmptyFieldNumber);
  for (int i = 0; i < count; ++i) {
    // The opcode of a failed request is undefined.
    if (completions[i].status == IBV_WC_SUCCESS &&
        (completions[i].opcode & IBV_WC_RECV) == 0) {
      Count(VerbsCost::kSignalledFieldNumber);
    }
  }
  return count;
}

int ReqNotifyCq(ibv_cq* cq, int solicited_only) {
  Count(VerbsCost::kArmsFieldNumber);
  return Original(cq->context).req_notify_cq(cq, solicited_only);
}

}  // namespace

void CountVerbs(ibv_context* context) {
  // A context that is counted already must keep its originals.
  if (!TheState().originals.emplace(context, context->ops).second) return;
  context->ops.post_send = PostSend;
  context->ops.post_recv = PostRecv;
  context->ops.post_srq_recv = PostSrqRecv;
  context->ops.poll_cq = PollCq;
  context->ops.req_notify_cq = ReqNotifyCq;
}

// Sleeps are the voluntary context switches of the process, which the kernel
// counts.
VerbsCost VerbsCounted() {
  VerbsCost cost;
  for (int i = 0; i < VerbsCost::descriptor()->field_count(); ++i) {
    const auto* const field = VerbsCost::descriptor()->field(i);
    VerbsCost::GetReflection()->SetDouble(
        &cost, field,
        static_cast<double>(TheState().counts[field->number()].load(
            std::memory_order_relaxed)));
  }
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  cost.set_sleeps(static_cast<double>(used.ru_nvcsw));
  return cost;
}

VerbsCost VerbsPerCall(const VerbsCost& before, const VerbsCost& after,
                       uint64_t calls) {
  VerbsCost cost;
  const google::protobuf::Reflection& of = *VerbsCost::GetReflection();
  for (int i = 0; i < VerbsCost::descriptor()->field_count(); ++i) {
    const auto* const field = VerbsCost::descriptor()->field(i);
    const double grown =
        of.GetDouble(after, field) - of.GetDouble(before, field);
    of.SetDouble(&cost, field, Rounded(grown / static_cast<double>(calls)));
  }
  return cost;
}

}  // namespace verbena::bench
