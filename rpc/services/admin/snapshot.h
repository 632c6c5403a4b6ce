// The data of the status page, as one document.

#ifndef VERBENA_RPC_SERVICES_ADMIN_SNAPSHOT_H_
#define VERBENA_RPC_SERVICES_ADMIN_SNAPSHOT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rpc/metrics.h"
#include "rpc/server.h"
#include "rpc/server_status.h"
#include "rpc/services/admin/admin_channels.h"
#include "rpc/services/admin/admin_snapshot.pb.h"
#include "rpc/services/admin/log_tail.h"

namespace verbena::internal {

// All that goes into one; plain values.
struct SnapshotSources {
  absl::Time now;  // By the wall clock, as `started`.
  absl::Time started;
  std::string host;
  int process_id = 0;
  std::vector<Server::Listening> listening;
  ServerMetrics metrics;
  ServerStatus status;
  const LogTail* log = nullptr;  // Null: none is kept.
  AdminChannels::List channels;
};

// Most servers that are listed, of all channels together.
inline constexpr size_t kMostListedServers = 1000;

admin::AdminSnapshot MakeSnapshot(const SnapshotSources& sources);
// Whatever peers have called themselves, it is JSON.
std::string ToJson(const admin::AdminSnapshot& snapshot);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SERVICES_ADMIN_SNAPSHOT_H_
