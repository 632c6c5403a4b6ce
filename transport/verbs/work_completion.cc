#include "transport/verbs/work_completion.h"

namespace verbena::transport {

// Names the usual cause after the name of the status, because these texts reach
// the user in the status of a call.
const char* WorkCompletionText(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error: a message was longer than its receive";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local queue pair operation error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error: a work request named memory that is not "
             "registered for it";
    case IBV_WC_WR_FLUSH_ERR:
      return "work request flushed: the connection was closed or had failed";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request error: the peer could not take a message";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error: the peer's memory key does not allow the "
             "access";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error at the peer";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded: the peer is gone or "
             "unreachable";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retry counter exceeded: the peer posts no "
             "receives";
    case IBV_WC_FATAL_ERR:
      return "the device failed";
    case IBV_WC_MW_BIND_ERR:
      return "a memory window could not be bound";
    // Statuses of atomics, datagrams and other kinds of queue pairs, which RPC
    // does not use.
    default:
      return "work completion error";
  }
}

}  // namespace verbena::transport
