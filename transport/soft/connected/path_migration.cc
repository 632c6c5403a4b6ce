#include "transport/soft/connected/path_migration.h"

namespace verbena::soft {

void PathMigration::Migrate() {
  state_ = IBV_MIG_MIGRATED;
  ++migrations_;
}

PathMigration::Peer PathMigration::OnPeer(uint32_t word) {
  const bool peer_is_ready = (word & 1) != 0;
  // Modulo 2^32, of twice the number.
  const uint32_t ahead = (word & ~1u) - (migrations_ << 1);
  switch (ahead) {
    case 0:
      if (peer_is_ready && state_ == IBV_MIG_REARM) state_ = IBV_MIG_ARMED;
      return Peer::kNothing;
    case 2:
      // It was armed, so we had re-armed and have not migrated since. That we
      // had not heard of its being ready does not matter.
      return state_ == IBV_MIG_MIGRATED ? Peer::kGarbage : Peer::kHasMigrated;
    case ~1u:  // It has yet to follow us.
      return Peer::kNothing;
    default:
      return Peer::kGarbage;
  }
}

}  // namespace verbena::soft
