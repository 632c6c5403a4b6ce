#include "transport/soft/datagram_queue_pair_state.h"

namespace verbena::soft {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kNothing = 0;
constexpr int kPlace = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kOptionalForRts = IBV_QP_CUR_STATE | IBV_QP_QKEY;

// Any state may go to RESET and to ERR besides; RESET only to INIT otherwise.
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kPlace, kNothing},
    {IBV_QPS_INIT, IBV_QPS_INIT, kNothing, kPlace},
    {IBV_QPS_INIT, IBV_QPS_RTR, kNothing, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kOptionalForRts},
    {IBV_QPS_RTS, IBV_QPS_RTS, kNothing, kOptionalForRts},
    {IBV_QPS_RTS, IBV_QPS_SQD, kNothing, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, kNothing, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_RTS, kNothing, kOptionalForRts},
    {IBV_QPS_SQE, IBV_QPS_RTS, kNothing, kOptionalForRts},
};

}  // namespace

bool IsLegalDatagramTransition(ibv_qp_state from, ibv_qp_state to, int mask) {
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
