// The attributes that modify_qp sets for a connected queue pair.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_ATTRIBUTES_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <chrono>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/connected/path_migration.h"

namespace verbena::soft {

// The attributes as they were last given. Not thread-safe: protected by the
// queue pair's lock.
class QueuePairAttributes {
 public:
  // Whether the attributes of `mask` have values that the device can take.
  static bool ValuesAreLegal(const ibv_qp_attr& attributes, int mask,
                             GidTable& gids);

  // Whether the attributes of `mask` whose legality depends on the current path
  // are legal.
  bool PathIsLegal(const ibv_qp_attr& attributes, int mask,
                   const PathMigration& migration) const;

  // Takes over the attributes of `mask`, but for the state of the queue pair
  // and that of its path.
  void Apply(const ibv_qp_attr& attributes, int mask);
  // The alternate path becomes the primary one, and stays the alternate one.
  void UseAlternatePath();

  const ibv_qp_attr& values() const { return values_; }

  // For how long requests may wait for an answer: each try takes 4.096 us *
  // 2^timeout. REQUIRES: values().timeout is not 0, which means for ever.
  std::chrono::nanoseconds TransportTimeout() const;

 private:
  ibv_qp_attr values_ = {};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_QUEUE_PAIR_ATTRIBUTES_H_
