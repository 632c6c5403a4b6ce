// Client and server of the transport layer in one process. Honours
// VERBENA_DEVICE and VERBENA_TEST_ADDRESS.

#include "tools/rpc_bench/transport_layer.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_device.h"
#include "tools/load/workload.h"
#include "transport/base/socket_address.h"
#include "transport/server_endpoint.h"

namespace verbena::bench {
namespace {

class TransportLayerTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    transport::EndpointOptions options;
    options.device = testing_support::TestOptions().device;
    if (GetParam()) options.spin_budget = absl::ZeroDuration();
    absl::StatusOr<std::unique_ptr<transport::ServerEndpoint>> server =
        transport::ServerEndpoint::Start(
            {.endpoint = options,
             .addresses = {testing_support::TestAddress() + ":0"}},
            echo_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    base::SocketAddress address = *base::SocketAddress::ParseNumeric(
        testing_support::TestListenAddress());
    address.set_port(static_cast<uint16_t>(server_->listening().front().port));
    layer_ = NewTransportLayer(address, options);
  }

  TransportEcho echo_;
  std::unique_ptr<transport::ServerEndpoint> server_;
  std::unique_ptr<Layer> layer_;  // Goes first.
};

TEST_P(TransportLayerTest, EchoesEverySizeAndDepth) {
  for (uint64_t size : {0, 64, 8000, 100000, 3000000}) {
    for (int outstanding : {1, 33}) {
      const Case measured = {.size_bytes = size,
                             .outstanding = outstanding,
                             .validate = true,
                             .iterations = 40};
      ASSERT_EQ(layer_->Prepare(measured), absl::OkStatus());
      const Sample sample = layer_->Run(measured, absl::Milliseconds(20));
      EXPECT_EQ(sample.latencies.count(), 40u) << size << " " << outstanding;
      EXPECT_EQ(sample.errors, 0u) << sample.first_error;
      layer_->Release();
    }
  }
}

TEST_P(TransportLayerTest, NoticesAServerThatEnds) {
  const Case measured = {.size_bytes = 64, .outstanding = 4};
  ASSERT_EQ(layer_->Prepare(measured), absl::OkStatus());
  server_.reset();
  const Sample sample = layer_->Run(measured, absl::Milliseconds(20));
  EXPECT_GT(sample.errors, 0u);
  EXPECT_EQ(sample.first_error.code(), absl::StatusCode::kUnavailable);
  layer_->Release();
  EXPECT_FALSE(layer_->Prepare(measured).ok());
}

INSTANTIATE_TEST_SUITE_P(PollingAndSleeping, TransportLayerTest,
                         testing::Bool());

}  // namespace
}  // namespace verbena::bench
