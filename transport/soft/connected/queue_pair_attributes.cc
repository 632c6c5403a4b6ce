#include "transport/soft/connected/queue_pair_attributes.h"

#include "transport/soft/address/legal_path.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/base/limits.h"

namespace verbena::soft {
namespace {

// The rights that a queue pair has. Others concern regions, and are ignored:
// programs pass the flags of their regions, such as IBV_ACCESS_ON_DEMAND.
constexpr unsigned int kAccessFlags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC;

// A path with a global header must name an entry of the GID table that has an
// address.
bool SourceIsLegal(const ibv_ah_attr& path, GidTable& gids) {
  if (path.is_global == 0) return true;
  gids.Refresh();
  return gids.At(path.grh.sgid_index).has_value();
}

// The kernel demands that the port in alt_ah_attr equals alt_port_num. Programs
// that were written for NICs with one port set alt_port_num alone, so here that
// counts.
bool AlternateIsLegal(const ibv_qp_attr& attributes, GidTable& gids) {
  gids.Refresh();
  return IsPort(attributes.alt_port_num) && attributes.alt_pkey_index == 0 &&
         attributes.alt_timeout <= 31 &&
         PathIsLegal(attributes.alt_ah_attr, gids);
}

}  // namespace

// Looks at each attribute by itself. IsLegalTransition() decides whether it may
// be set at all in this transition.
bool QueuePairAttributes::ValuesAreLegal(const ibv_qp_attr& attributes,
                                         int mask, GidTable& gids) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PORT) && !IsPort(attributes.port_num)) return false;
  if (has(IBV_QP_PKEY_INDEX) && attributes.pkey_index != 0) return false;
  if (has(IBV_QP_AV) && !SourceIsLegal(attributes.ah_attr, gids)) return false;
  if (has(IBV_QP_PATH_MTU) && (attributes.path_mtu < IBV_MTU_256 ||
                               attributes.path_mtu > IBV_MTU_4096)) {
    return false;
  }
  if (has(IBV_QP_DEST_QPN) && attributes.dest_qp_num > kQueuePairNumberMax) {
    return false;
  }
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) &&
      attributes.max_dest_rd_atomic > kReadsMax) {
    return false;
  }
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && attributes.max_rd_atomic > kReadsMax) {
    return false;
  }
  // On the wire timers have five bits, and counts of retries three.
  if (has(IBV_QP_MIN_RNR_TIMER) && attributes.min_rnr_timer > 31) return false;
  if (has(IBV_QP_TIMEOUT) && attributes.timeout > 31) return false;
  if (has(IBV_QP_RETRY_CNT) && attributes.retry_cnt > 7) return false;
  if (has(IBV_QP_RNR_RETRY) && attributes.rnr_retry > 7) return false;
  return !has(IBV_QP_ALT_PATH) || AlternateIsLegal(attributes, gids);
}

bool QueuePairAttributes::PathIsLegal(const ibv_qp_attr& attributes, int mask,
                                      const PathMigration& migration) const {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  const uint8_t port =
      has(IBV_QP_PORT) ? attributes.port_num : values_.port_num;
  if (has(IBV_QP_AV) && attributes.ah_attr.port_num != port) return false;
  if (!has(IBV_QP_PATH_MIG_STATE)) return true;
  // Without an alternate path there is nothing to be armed for.
  const bool loaded = has(IBV_QP_ALT_PATH) || values_.alt_port_num != 0;
  return migration.MayEnter(attributes.path_mig_state) &&
         (loaded || attributes.path_mig_state == IBV_MIG_MIGRATED);
}

// Takes over the attributes that `mask` names. The alternate address gets the
// port of alt_port_num, which alone counts: see AlternateIsLegal().
void QueuePairAttributes::Apply(const ibv_qp_attr& from, int mask) {
  ibv_qp_attr& to = values_;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) to.port_num = from.port_num;
  if (has(IBV_QP_ACCESS_FLAGS)) {
    to.qp_access_flags = from.qp_access_flags & kAccessFlags;
  }
  if (has(IBV_QP_AV)) to.ah_attr = from.ah_attr;
  if (has(IBV_QP_ALT_PATH)) {
    to.alt_ah_attr = from.alt_ah_attr;
    to.alt_pkey_index = from.alt_pkey_index;
    to.alt_port_num = to.alt_ah_attr.port_num = from.alt_port_num;
    to.alt_timeout = from.alt_timeout;
  }
  if (has(IBV_QP_PATH_MTU)) to.path_mtu = from.path_mtu;
  if (has(IBV_QP_DEST_QPN)) to.dest_qp_num = from.dest_qp_num;
  if (has(IBV_QP_RQ_PSN)) to.rq_psn = from.rq_psn;
  if (has(IBV_QP_SQ_PSN)) to.sq_psn = from.sq_psn;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) {
    to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  }
  if (has(IBV_QP_MIN_RNR_TIMER)) to.min_rnr_timer = from.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) to.timeout = from.timeout;
  if (has(IBV_QP_RETRY_CNT)) to.retry_cnt = from.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) to.rnr_retry = from.rnr_retry;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) to.max_rd_atomic = from.max_rd_atomic;
}

void QueuePairAttributes::UseAlternatePath() {
  values_.ah_attr = values_.alt_ah_attr;
  values_.port_num = values_.alt_port_num;
  values_.pkey_index = values_.alt_pkey_index;
  values_.timeout = values_.alt_timeout;
}

// The attribute `timeout` stands for 4.096 us times two to its power, as
// InfiniBand has it. The request and each of its retries wait for that long.
std::chrono::nanoseconds QueuePairAttributes::TransportTimeout() const {
  return std::chrono::nanoseconds(int64_t{4096} << values_.timeout) *
         (values_.retry_cnt + 1);
}

}  // namespace verbena::soft
