// Echo by RPC: the layer that users see.

#ifndef VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/channel.h"
#include "rpc/credentials.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {

// The channels of an RpcLayer. Unary calls go over the first `busy` of them by
// turns; the others are connected and do nothing.
struct Crowd {
  int channels = 1;
  int busy = 1;
  std::shared_ptr<ChannelCredentials> credentials =
      InsecureChannelCredentials();
};

// Calls verbena.bench.Echo over one channel, or more for unary calls. If one
// call is outstanding, the blocking stub makes it, unless the case asks for
// another API. If several are, callbacks or coroutines make them. For streams,
// see stream.h.
class RpcLayer final : public Layer {
 public:
  // Fails if a call to `target` does not succeed within `timeout`, with the
  // status of that call.
  static absl::StatusOr<std::unique_ptr<RpcLayer>> Connect(
      const std::string& target, const ChannelOptions& options,
      absl::Duration timeout, const Crowd& crowd = {});

  absl::string_view name() const override { return "rpc"; }
  Sample Run(const Case& measured, absl::Duration duration) override;

  // Asks the server for its description.
  absl::StatusOr<DescribeReply> Describe();

  // The device that the channel uses.
  std::string device() const { return channel_->device(); }

 private:
  explicit RpcLayer(std::shared_ptr<Channel> channel)
      : channel_(std::move(channel)), stub_(Echo::NewStub(channel_)) {}

  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<Echo::Stub> stub_;
  // Stubs of the other channels of the crowd, the busy ones first.
  std::vector<std::unique_ptr<Echo::Stub>> others_;
  size_t busy_others_ = 0;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_RPC_LAYER_H_
