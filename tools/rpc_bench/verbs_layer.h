// Echo and streams by bare verbs: what there is to reach.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/options.h"
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

// Makes a connection for each case.
class VerbsLayer final : public Layer {
 public:
  // `server`: where a VerbsServer listens.
  static absl::StatusOr<std::unique_ptr<VerbsLayer>> Create(
      const base::SocketAddress& server, const Options& options);
  ~VerbsLayer() override;

  absl::string_view name() const override { return "verbs"; }
  absl::Status Prepare(const Case& measured) override;
  Sample Run(const Case& measured, absl::Duration duration) override;
  void Release() override;

 private:
  VerbsLayer(const transport::Provider& provider,
             const base::SocketAddress& server, const Options& options,
             transport::EventChannel channel);

  VerbsHello HelloFor(const Case& measured) const;
  // Waits for the event `wanted` of `id`.
  absl::StatusOr<transport::CmEvent> AwaitStep(const rdma_cm_id* id,
                                               rdma_cm_event_type wanted);
  absl::StatusOr<transport::CmId> Resolve();

  const transport::Provider& provider_;
  const base::SocketAddress server_;
  const Options options_;
  transport::EventChannel channel_;
  // The connection of a case; null between Release() and Prepare().
  std::unique_ptr<VerbsEnd> end_;
  std::unique_ptr<VerbsPipe> pipe_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
