// Client and server of the verbs layer in one process. Honours VERBENA_DEVICE
// and VERBENA_TEST_ADDRESS.

#include "tools/rpc_bench/verbs_layer.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/test_device.h"
#include "tools/load/workload.h"
#include "transport/base/socket_address.h"

namespace verbena::bench {
namespace {

class VerbsLayerTest : public testing::Test {
 protected:
  void SetUp() override {
    address_ = *base::SocketAddress::ParseNumeric(
        testing_support::TestListenAddress());
    absl::StatusOr<std::unique_ptr<VerbsServer>> server =
        VerbsServer::Start(testing_support::TestProvider(), address_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_.set_port(server_->port());
  }

  std::unique_ptr<Layer> NewLayer() {
    return NewVerbsLayer(address_, testing_support::TestOptions().device,
                         events_);
  }

  // Runs `measured` on a connection of its own.
  Sample Run(const Case& measured) {
    const std::unique_ptr<Layer> layer = NewLayer();
    Sample failed;
    failed.errors = 1;
    failed.first_error = layer->Prepare(measured);
    if (!failed.first_error.ok()) return failed;
    return layer->Run(measured, absl::Milliseconds(20));
  }

  base::SocketAddress address_;
  std::unique_ptr<VerbsServer> server_;
  bool events_ = false;
};

TEST_F(VerbsLayerTest, EchoesEverySizeAndDepth) {
  for (uint64_t size : {0, 1, 64, 1000, 8192, 8193, 100000}) {
    for (int outstanding : {1, 2, 3, 33}) {
      const Sample sample = Run(
          {.size_bytes = size, .outstanding = outstanding, .validate = true});
      EXPECT_GT(sample.latencies.count(), 0u) << size << " " << outstanding;
      EXPECT_EQ(sample.errors, 0u) << sample.first_error;
    }
  }
}

TEST_F(VerbsLayerTest, EchoesMoreBytesThanOneRequestTakesOnSomeDevices) {
  const Sample sample = Run({.size_bytes = (20 << 20) + 1,
                             .outstanding = 2,
                             .validate = true,
                             .iterations = 3});
  EXPECT_EQ(sample.latencies.count(), 3u);
  EXPECT_EQ(sample.errors, 0u) << sample.first_error;
}

TEST_F(VerbsLayerTest, SleepsBetweenMessages) {
  events_ = true;
  for (uint64_t size : {64, 20000}) {
    for (int outstanding : {1, 8}) {
      const Sample sample = Run(
          {.size_bytes = size, .outstanding = outstanding, .validate = true});
      EXPECT_GT(sample.latencies.count(), 0u);
      EXPECT_EQ(sample.errors, 0u) << sample.first_error;
    }
  }
}

TEST_F(VerbsLayerTest, StreamsOneWay) {
  for (bool events : {false, true}) {
    events_ = events;
    for (Op op : {Op::kSend, Op::kWrite, Op::kRead}) {
      for (int outstanding : {1, 16}) {
        const Sample sample =
            Run({.op = op, .size_bytes = 4096, .outstanding = outstanding});
        EXPECT_GT(sample.latencies.count(), 0u) << OpName(op);
        EXPECT_EQ(sample.errors, 0u) << sample.first_error;
      }
    }
  }
}

TEST_F(VerbsLayerTest, RefusesMoreMemoryThanItsBound) {
  const Sample sample = Run({.size_bytes = 64 << 20, .outstanding = 1024});
  EXPECT_EQ(sample.first_error.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(VerbsLayerTest, NoticesAServerThatEnds) {
  const std::unique_ptr<Layer> layer = NewLayer();
  const Case measured = {.size_bytes = 64, .outstanding = 4};
  ASSERT_EQ(layer->Prepare(measured), absl::OkStatus());
  server_.reset();
  EXPECT_EQ(layer->Run(measured, absl::Milliseconds(20)).errors, 1u);
}

TEST_F(VerbsLayerTest, SaysThatNobodyListens) {
  server_.reset();
  EXPECT_EQ(Run({.size_bytes = 64}).first_error.code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::bench
