#include "transport/soft/connected/path_migration.h"

namespace verbena::soft {

void PathMigration::Migrate() {
  state_ = IBV_MIG_MIGRATED;
  ++migrations_;
}

PathMigration::Peer PathMigration::OnPeer(uint32_t word) {
  const bool peer_is_ready = (word & 1) != 0;
  // How many migrations more than we the peer has behind it, times two: the
  // number stands above the lowest bit. Modulo 2^32.
  const uint32_t ahead = (word & ~1u) - (migrations_ << 1);
  switch (ahead) {
    case 0:
      if (peer_is_ready && state_ == IBV_MIG_REARM) state_ = IBV_MIG_ARMED;
      return Peer::kNothing;
    case 2:
      // The peer is one migration ahead, so we are to follow. It migrated from
      // ARMED, so we had re-armed and have not migrated since: our state cannot
      // be MIGRATED. It may be REARM, if we had not heard of the peer's ARMED.
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
