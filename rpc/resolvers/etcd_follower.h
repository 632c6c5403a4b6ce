// Follows the keys under one prefix, for one channel.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_FOLLOWER_H_
#define VERBENA_RPC_RESOLVERS_ETCD_FOLLOWER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/etcd_client.h"
#include "rpc/resolvers/etcd_loop.h"
#include "rpc/resolvers/etcd_options.h"
#include "rpc/resolvers/revocable_callback.h"
#include "transport/base/rare_warning.h"

namespace verbena::etcd {
class KeyValue;
class RangeResponse;
class ResponseHeader;
class WatchResponse;
}  // namespace verbena::etcd

namespace verbena::internal {

// Reads all keys, and then watches them:
//
//   Connect -> Range, Range ... -> Watch -> (the stream ends) -> Connect
//                                    ^------- from the revision it had --'
//
// Loop thread only, but for the constructor and Leave().
class EtcdFollower {
 public:
  EtcdFollower(EtcdLoop& loop, std::string prefix, EtcdOptions options,
               Resolver::OnResult on_result);

  void Start() { client_.Connect(); }
  // The function for results is not called after this. Waits only while it
  // runs. Any thread.
  void Leave() { on_result_.Revoke(); }

 private:
  // A key that is a server.
  struct Entry {
    int64_t revision = 0;  // The one that wrote it.
    absl::StatusOr<ServerAddress> server;
  };
  using Entries = std::map<std::string, Entry>;

  // --- Reading ---
  void OnReady();
  // Asks for keys from `key` on, as they were at `revision`; 0 stands for now.
  void Read(const std::string& key, int64_t revision);
  void OnRead(const etcd::RangeResponse& page, int64_t revision);
  // Whether the cluster is another one than before, as after a restoration from
  // a backup. Then all is read again.
  bool IsAnother(const etcd::ResponseHeader& header);
  // Reads all keys again, at another end point.
  void Restart(const absl::Status& why);

  // --- Watching ---
  void Watch();
  void OnWatched(const etcd::WatchResponse& response);
  // Asks now and then whether the end point still answers.
  void ScheduleCheck();
  void Check();

  // --- Answers ---
  void Take(const etcd::KeyValue& pair);
  // Passes an answer on when all that has arrived is processed.
  void Change();
  absl::StatusOr<Resolved> Answer();

  // Goes on at another end point.
  void Fail(const absl::Status& why);

  EtcdLoop& loop_;
  const std::string prefix_;
  const std::string config_key_;
  const std::string range_end_;
  RevocableCallback<absl::StatusOr<Resolved>> on_result_;
  EtcdClient client_;

  Entries entries_;
  std::string service_config_;
  // The keys as they were before the reading that is under way.
  Entries old_entries_;
  // The revision to watch from; 0: all keys are to be read.
  int64_t revision_ = 0;
  uint64_t cluster_id_ = 0;  // 0: not known yet.
  // The last answer was an error of the end points.
  bool told_failure_ = false;

  std::unique_ptr<EtcdPending> watch_;
  std::unique_ptr<EtcdPending> check_;  // The next one, or the wait for Watch.
  std::unique_ptr<EtcdPending> change_;
  base::RareWarning too_many_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_ETCD_FOLLOWER_H_
