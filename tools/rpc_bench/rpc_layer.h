// Echo by RPC: the layer that users see.

#ifndef VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/channel.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// Calls verbena.bench.Echo over one channel. One call outstanding is made by
// the blocking stub, several by callbacks, each of which starts the next call.
// Streams are stream_pipe.h's and stream_crowd.h's.
class RpcLayer final : public Layer {
 public:
  // Fails when there is no connection to `target` within `timeout`, with the
  // reason that a call gets.
  static absl::StatusOr<std::unique_ptr<RpcLayer>> Connect(
      const std::string& target, const ChannelOptions& options,
      absl::Duration timeout);

  absl::string_view name() const override { return "rpc"; }
  Sample Run(const Case& measured, absl::Duration duration) override;

  // What the server says of itself.
  absl::StatusOr<DescribeReply> Describe();

  // The device that the channel uses.
  std::string device() const { return channel_->device(); }

 private:
  explicit RpcLayer(std::shared_ptr<Channel> channel)
      : channel_(std::move(channel)), stub_(Echo::NewStub(channel_)) {}

  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<Echo::Stub> stub_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_
