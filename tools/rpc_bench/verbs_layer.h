// Echo and streams by bare verbs: what there is to reach.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/echo_loop.h"
#include "tools/rpc_bench/options.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/event_channel.h"

namespace verbena::bench {

// Makes a connection for each case.
class VerbsLayer final : public Layer {
 public:
  // `server`: where a VerbsServer listens. Of the options only the device and
  // the events matter here.
  VerbsLayer(const base::SocketAddress& server, const Options& options)
      : server_(server), options_(options) {}

  absl::string_view name() const override { return "verbs"; }
  absl::Status Prepare(const Case& measured) override;
  Sample Run(const Case& measured, absl::Duration duration) override;
  void Release() override;

 private:
  const base::SocketAddress server_;
  const Options options_;
  // The connection of a case, in the order of dependence; nothing between
  // Release() and Prepare().
  std::optional<transport::EventChannel> channel_;
  std::unique_ptr<VerbsEnd> end_;
  std::unique_ptr<EchoPipe> pipe_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_LAYER_H_
