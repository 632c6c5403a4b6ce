#include "transport/soft/connected/path_migration.h"

namespace verbena::soft {

void PathMigration::Migrate() {
  state_ = IBV_MIG_MIGRATED;
  ++migrations_;
}

PathMigration::Peer PathMigration::OnPeer(uint32_t word) {
  const bool peer_is_ready = (word & 1) != 0;
  // The peer's count of migrations less ours, modulo 2^32. It is doubled,
  // because the count stands above the lowest bit.
  const uint32_t ahead = (word & ~1u) - (migrations_ << 1);
  switch (ahead) {
    case 0:
      if (peer_is_ready && state_ == IBV_MIG_REARM) state_ = IBV_MIG_ARMED;
      return Peer::kNothing;
    case 2:
      // The peer is one migration ahead, so we are to follow. It migrated from
      // ARMED, so we had re-armed and have not migrated since: our state cannot
      // be MIGRATED. It may be REARM, if the peer migrated before we saw the
      // word with which it had re-armed.
      return state_ == IBV_MIG_MIGRATED ? Peer::kGarbage : Peer::kHasMigrated;
    case ~1u:  // The peer is one migration behind: it has yet to follow us.
      return Peer::kNothing;
    default:
      // Neither side can be two migrations ahead. To migrate again it must be
      // ARMED, for which the other side must have followed.
      return Peer::kGarbage;
  }
}

}  // namespace verbena::soft
