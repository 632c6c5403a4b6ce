#include "transport/soft/queues/queue_pair_state.h"

#include <span>

namespace verbena::soft {
namespace {

struct Transition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

constexpr int kNothing = 0;

// Attributes that both connected types have.
constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRequiredForRtr =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kOptionalForRtr =
    IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr int kOptionalForRts = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
                                IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
constexpr int kWhileDrained = IBV_QP_AV | IBV_QP_ALT_PATH |
                              IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                              IBV_QP_PATH_MIG_STATE;

// Attributes that only a reliable connection has besides.
constexpr int kReliableForRtr =
    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kReliableForRts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

// Any state may go to RESET and to ERR besides; RESET only to INIT otherwise.
constexpr Transition kReliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInit, kNothing},
    {IBV_QPS_INIT, IBV_QPS_INIT, kNothing, kInit},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRequiredForRtr | kReliableForRtr,
     kOptionalForRtr},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN | kReliableForRts,
     kOptionalForRts | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, kNothing,
     kOptionalForRts | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, kNothing, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, kNothing,
     kWhileDrained | kReliableForRtr | kReliableForRts | IBV_QP_PORT},
    {IBV_QPS_SQD, IBV_QPS_RTS, kNothing,
     kOptionalForRts | IBV_QP_MIN_RNR_TIMER},
};

constexpr Transition kUnreliable[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInit, kNothing},
    {IBV_QPS_INIT, IBV_QPS_INIT, kNothing, kInit},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRequiredForRtr, kOptionalForRtr},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kOptionalForRts},
    {IBV_QPS_RTS, IBV_QPS_RTS, kNothing, kOptionalForRts},
    {IBV_QPS_RTS, IBV_QPS_SQD, kNothing, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, kNothing, kWhileDrained},
    {IBV_QPS_SQD, IBV_QPS_RTS, kNothing, kOptionalForRts},
};

// A datagram queue pair has a key, and no peer. A failed send takes it to SQE.
constexpr int kDatagramInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kDatagramForRts = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr Transition kDatagram[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kDatagramInit, kNothing},
    {IBV_QPS_INIT, IBV_QPS_INIT, kNothing, kDatagramInit},
    {IBV_QPS_INIT, IBV_QPS_RTR, kNothing, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, kDatagramForRts},
    {IBV_QPS_RTS, IBV_QPS_RTS, kNothing, kDatagramForRts},
    {IBV_QPS_RTS, IBV_QPS_SQD, kNothing, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, kNothing, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_RTS, kNothing, kDatagramForRts},
    {IBV_QPS_SQE, IBV_QPS_RTS, kNothing, kDatagramForRts},
};

std::span<const Transition> TransitionsOf(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UD:
      return kDatagram;
    case IBV_QPT_UC:
      return kUnreliable;
    default:
      return kReliable;
  }
}

}  // namespace

bool IsLegalTransition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                       int mask) {
  // The state itself is named in every transition, so it is not in the tables.
  const int attributes = mask & ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return attributes == 0;
  for (const Transition& transition : TransitionsOf(type)) {
    if (transition.from != from || transition.to != to) continue;
    return (attributes & transition.required) == transition.required &&
           (attributes & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

}  // namespace verbena::soft
