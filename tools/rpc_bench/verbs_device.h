// What a device lets the verbs layer do.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_DEVICE_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_DEVICE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

struct VerbsDevice {
  uint64_t max_message_bytes = 0;  // Of one work request.
  uint8_t max_reads = 0;           // RDMA READs under way, either direction.

  // The device and port that `id` is bound to.
  static absl::StatusOr<VerbsDevice> Of(const transport::Provider& provider,
                                        const transport::CmId& id);
};

// What the connection manager has chosen for a connection.
struct VerbsPath {
  int port = 0;
  int gid_index = 0;
  int mtu_bytes = 0;

  // REQUIRES: `id` is connected.
  static absl::StatusOr<VerbsPath> Of(const transport::Provider& provider,
                                      const transport::CmId& id);
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_DEVICE_H_
