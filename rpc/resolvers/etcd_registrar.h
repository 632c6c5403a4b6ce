// Keeps the keys of one announcement in etcd.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_REGISTRAR_H_
#define VERBENA_RPC_RESOLVERS_ETCD_REGISTRAR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/resolvers/etcd_client.h"
#include "rpc/resolvers/etcd_loop.h"
#include "rpc/resolvers/etcd_options.h"
#include "rpc/resolvers/revocable_callback.h"
#include "transport/base/mutex.h"
#include "transport/base/rare_warning.h"

namespace verbena::internal {

// Gets a lease, writes the keys, and renews the lease:
//
//   Connect -> Grant -> Put, Put ... -> Renew, Renew ...
//                ^--- the lease is lost ---'
//
// After a failure it goes on with Renew if it has a lease, because the cluster
// may know it still. Loop thread only, but for the functions that say
// otherwise.
class EtcdRegistrar {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  // Any thread. `on_status` may be empty.
  EtcdRegistrar(EtcdLoop& loop, Pairs pairs, absl::Duration ttl,
                EtcdOptions options,
                std::function<void(const absl::Status&)> on_status);

  void Start() { client_.Connect(); }
  // Revokes the lease: tries until one end point has done it.
  void Withdraw();
  // Gives up all that is under way.
  void Stop();

  // The user's function is not called after this. Any thread.
  void Leave() { on_status_.Revoke(); }

  // Thread-safe.
  absl::Status status() const;
  // Waits until the status is OK, or until `deadline`. Thread-safe.
  absl::Status Await(absl::Time deadline) const;
  // Waits until Withdraw() is over, or until `deadline`. Thread-safe.
  absl::Status AwaitWithdrawal(absl::Time deadline) const;

 private:
  enum class Phase { kRegister, kWithdraw, kOver };

  void OnReady();
  void OnFailure(const absl::Status& status);
  void Fail(const absl::Status& why);

  void Grant();
  // Writes the keys from number `next` on.
  void Put(size_t next);
  void Renew();
  // After a third of the TTL.
  void ScheduleRenewal();
  void Revoke();

  void SetStatus(absl::Status status);
  void EndWithdrawal();

  EtcdLoop& loop_;
  const Pairs pairs_;
  const absl::Duration ttl_;
  RevocableCallback<const absl::Status&> on_status_;
  EtcdClient client_;

  Phase phase_ = Phase::kRegister;
  int64_t lease_ = 0;  // 0: none.
  absl::Duration granted_ttl_;
  bool written_ = false;  // All keys, with this lease.
  std::unique_ptr<EtcdPending> renewal_;
  base::RareWarning warning_;

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool withdrawn_ ABSL_GUARDED_BY(mutex_) = false;
  // Why it has not been withdrawn yet.
  absl::Status withdrawal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_REGISTRAR_H_
