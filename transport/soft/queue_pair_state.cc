#include "transport/soft/queue_pair_state.h"

namespace verbena::soft {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kNothing = 0;
constexpr int kRequiredForRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                IBV_QP_MIN_RNR_TIMER;
constexpr int kRequiredForRts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kOptionalForRts = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
                                IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
                                IBV_QP_PATH_MIG_STATE;

// Any state may go to RESET and to ERR besides; RESET only to INIT otherwise.
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, kNothing},
    {IBV_QPS_INIT, IBV_QPS_INIT, kNothing,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRequiredForRtr,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRequiredForRts, kOptionalForRts},
    {IBV_QPS_RTS, IBV_QPS_RTS, kNothing, kOptionalForRts},
};

}  // namespace

bool IsLegalTransition(ibv_qp_state from, ibv_qp_state to, int mask) {
  const int attributes = mask & ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return attributes == 0;
  for (const Transition& transition : kTransitions) {
    if (transition.from != from || transition.to != to) continue;
    return (attributes & transition.required) == transition.required &&
           (attributes & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

}  // namespace verbena::soft
