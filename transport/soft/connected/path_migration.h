// Which of its two paths a queue pair uses, and when it changes to the other.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_MIGRATION_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_MIGRATION_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::soft {

// The state machine of path migration (InfiniBand specification, 17.2.8):
//
//   MIGRATED ── the user ──▶ REARM ── the peer has re-armed too ──▶ ARMED
//      ▲                                                              │
//      └───────── the user, a path that is down, or the peer ─────────┘
//
// In InfiniBand each packet says whether its sender is in MIGRATED (the bit
// MigReq). Here each side tells the other a word, SideWords::path, whenever it
// changes. The word says whether the side is in MIGRATED, and how often it has
// migrated: so two sides that migrate at once do not take it for two
// migrations.
//
// Not thread-safe: protected by the queue pair's lock.
class PathMigration {
 public:
  // The meaning of the peer's word.
  enum class Peer {
    kNothing,
    kHasMigrated,  // We are to migrate too.
    kGarbage,      // A correct peer cannot have said it.
  };

  ibv_mig_state state() const { return state_; }
  bool armed() const { return state_ == IBV_MIG_ARMED; }

  // The word that the peer is to be told; 0 as long as nothing has happened.
  uint32_t word() const { return Word(migrations_, state_); }

  // Whether the user may ask for `state`. ARMED is entered only when both sides
  // have re-armed, and a queue pair in REARM, which waits for its peer to do
  // so, cannot be taken back to MIGRATED.
  bool MayEnter(ibv_mig_state state) const {
    return state == IBV_MIG_REARM ||
           (state == IBV_MIG_MIGRATED && state_ != IBV_MIG_REARM);
  }

  void Rearm() { state_ = IBV_MIG_REARM; }
  // The alternate path is the primary one from now on.
  void Migrate();

  // Takes note of the peer's word, and returns its meaning.
  Peer OnPeer(uint32_t word);

 private:
  static uint32_t Word(uint32_t migrations, ibv_mig_state state) {
    return migrations << 1 | (state == IBV_MIG_MIGRATED ? 0 : 1);
  }

  ibv_mig_state state_ = IBV_MIG_MIGRATED;
  uint32_t migrations_ = 0;  // How often this side has migrated.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_PATH_MIGRATION_H_
