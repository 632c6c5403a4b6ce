// Echo and streams by bare verbs: what there is to reach.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/verbs_pipe.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

struct VerbsOptions {
  std::string device;   // See ChannelOptions.
  bool events = false;  // Both sides sleep on completion channels.

  // Echoes of more bytes move as large calls do: the server READs what the
  // client has, WRITEs it back, and SENDs only say so.
  uint64_t bulk_threshold_bytes = 8192;

  uint32_t receive_depth = 0;  // Receives kept posted; 0: what suits the case.
  uint32_t inline_bytes = 220;
  bool inline_required = false;  // Fail if the device takes less inline.

  // The connection manager chooses these three. Not 0 (the index: not
  // negative): fail if it has chosen another.
  int ib_port = 0;
  int gid_index = -1;
  int mtu_bytes = 0;
};

// Makes a connection for each case.
class VerbsLayer final : public Layer {
 public:
  // `server`: where a VerbsServer listens.
  static absl::StatusOr<std::unique_ptr<VerbsLayer>> Create(
      const base::SocketAddress& server, const VerbsOptions& options);
  ~VerbsLayer() override;

  absl::string_view name() const override { return "verbs"; }
  absl::Status Prepare(const Case& measured) override;
  Sample Run(const Case& measured, absl::Duration duration) override;
  void Release() override;

 private:
  VerbsLayer(const transport::Provider& provider,
             const base::SocketAddress& server, const VerbsOptions& options,
             transport::EventChannel channel);

  VerbsHello HelloFor(const Case& measured) const;
  absl::Status CheckCase(const VerbsHello& hello,
                         uint64_t max_message_bytes) const;
  // Fails when the connection manager has chosen what the options do not want.
  absl::Status CheckPath() const;
  // Waits for the event `wanted` of `id`.
  absl::StatusOr<transport::CmEvent> AwaitStep(const rdma_cm_id* id,
                                               rdma_cm_event_type wanted);
  absl::StatusOr<transport::CmId> Resolve();

  const transport::Provider& provider_;
  const base::SocketAddress server_;
  const VerbsOptions options_;
  transport::EventChannel channel_;
  // The connection of a case; null between Release() and Prepare().
  std::unique_ptr<VerbsEnd> end_;
  std::unique_ptr<VerbsPipe> pipe_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
