#include "transport/connection/poller_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes down what it hears.
class FakeHandler final : public CompletionHandler {
 public:
  void OnReceive(absl::Span<const uint8_t> frame) override {
    received.push_back(frame.size());
  }
  void OnSendDone(uint64_t wr_id, ibv_wc_status /*status*/) override {
    sent.push_back(wr_id);
  }
  void OnReceiveError(ibv_wc_status /*status*/) override { ++errors; }
  void OnSendSlot() override { ++slots; }
  void OnTick(absl::Time /*now*/) override { ++ticks; }
  absl::Time NextTick() const override { return next_tick; }

  std::vector<size_t> received;
  std::vector<uint64_t> sent;
  int errors = 0;
  int slots = 0;
  int ticks = 0;
  absl::Time next_tick = absl::InfiniteFuture();
};

class PollerDeviceTest : public testing::Test {
 protected:
  static constexpr uint32_t kConnections = 3;

  PollerDeviceTest() {
    PollerDevice::Options options;
    options.max_connections = kConnections;
    options.pool.access = IBV_ACCESS_LOCAL_WRITE;
    options.pool.first_region_bytes = 1 << 20;
    options.pool.max_bytes = 1 << 20;
    options.pool.max_regions = 1;
    options.pool.largest_bytes = 1 << 20;
    device_ = *PollerDevice::Create(provider_, verbs_.context(), options);
  }

  static Provider MakeProvider(const VerbsOps& table) {
    Provider provider = {"fake", table, {}};
    provider.verbs.query_device = [](ibv_context* /*context*/,
                                     ibv_device_attr* attributes) {
      attributes->max_srq_wr = 1000;
      attributes->max_cqe = 4000;
      return 0;
    };
    return provider;
  }

  // The receive that was posted as number `index`, with a message.
  void PushReceive(uint32_t qp_num, size_t index, uint32_t bytes) {
    ibv_wc completion = {};
    completion.wr_id = verbs_.receives[index].wr_id;
    completion.qp_num = qp_num;
    completion.byte_len = bytes;
    verbs_.completions.push_back(completion);
  }
  void PushSend(uint32_t qp_num, uint64_t wr_id) {
    ibv_wc completion = {};
    completion.wr_id = wr_id;
    completion.qp_num = qp_num;
    verbs_.completions.push_back(completion);
  }

  FakeVerbs verbs_;
  const Provider provider_ = MakeProvider(verbs_.table());
  std::unique_ptr<PollerDevice> device_;
  FakeHandler a_;
  FakeHandler b_;
};

TEST_F(PollerDeviceTest, TellsEveryConnectionWhatConcernsIt) {
  ASSERT_TRUE(device_->Reserve().ok());
  device_->AddHandler(7, &a_);
  // In the same place of the cache.
  device_->AddHandler(7 + 64, &b_);
  PushReceive(7, 0, 100);
  PushSend(7 + 64, 5);
  PushSend(7, 6);
  PushReceive(7 + 64, 1, 200);
  EXPECT_EQ(device_->Poll(), 4);
  EXPECT_THAT(a_.received, ElementsAre(100));
  EXPECT_THAT(a_.sent, ElementsAre(6));
  EXPECT_THAT(b_.received, ElementsAre(200));
  EXPECT_THAT(b_.sent, ElementsAre(5));
  device_->RemoveHandler(7);
  device_->RemoveHandler(7 + 64);
  device_->Release();
}

TEST_F(PollerDeviceTest, TellsNobodyWhatConcernsOneThatIsGone) {
  ASSERT_TRUE(device_->Reserve().ok());
  device_->AddHandler(7, &a_);
  PushSend(7, 1);
  EXPECT_EQ(device_->Poll(), 1);
  device_->RemoveHandler(7);
  PushSend(7, 2);
  PushReceive(7, 0, 100);
  EXPECT_EQ(device_->Poll(), 2);
  EXPECT_THAT(a_.sent, ElementsAre(1));
  EXPECT_THAT(a_.received, IsEmpty());
  device_->Release();
}

TEST_F(PollerDeviceTest, TicksEveryConnection) {
  device_->AddHandler(1, &a_);
  device_->AddHandler(2, &b_);
  b_.next_tick = absl::UnixEpoch();
  EXPECT_EQ(device_->NextTick(), absl::UnixEpoch());
  device_->Tick(absl::UnixEpoch());
  EXPECT_EQ(a_.ticks, 1);
  EXPECT_EQ(b_.ticks, 1);
  device_->RemoveHandler(2);
  EXPECT_EQ(device_->NextTick(), absl::InfiniteFuture());
  device_->RemoveHandler(1);
}

TEST_F(PollerDeviceTest, ReservesForAsManyConnectionsAsItWasMadeFor) {
  for (uint32_t i = 0; i < kConnections; ++i) {
    ASSERT_TRUE(device_->Reserve().ok());
  }
  const absl::Status full = device_->Reserve();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("all 3 connections"));
  device_->Release();
  EXPECT_TRUE(device_->Reserve().ok());
  for (uint32_t i = 0; i < kConnections; ++i) device_->Release();
}

TEST_F(PollerDeviceTest, KeepsRoomForIdleConnectionsWhileOthersGrow) {
  ASSERT_TRUE(device_->Reserve().ok());
  uint32_t grown = 0;
  while (const uint32_t more = device_->GrowReceives(kCredits)) grown += more;
  EXPECT_EQ(grown, kConnections * (kCredits - kIdleCredits));
  for (uint32_t i = 1; i < kConnections; ++i) {
    EXPECT_TRUE(device_->Reserve().ok());
  }
  device_->ShrinkReceives(10);
  EXPECT_EQ(device_->GrowReceives(kCredits), 10u);
  device_->ShrinkReceives(grown);
  for (uint32_t i = 0; i < kConnections; ++i) device_->Release();
}

TEST_F(PollerDeviceTest, TellsThoseThatWaitForASendSlotInTurn) {
  device_->AddHandler(1, &a_);
  device_->AddHandler(2, &b_);
  std::vector<uint32_t> held;
  while (device_->send_slots().available()) {
    held.push_back(device_->send_slots().Acquire());
  }
  EXPECT_EQ(held.size(), kMaxSendSlots);
  device_->WaitForSendSlot(&a_);
  device_->WaitForSendSlot(&b_);
  device_->WaitForSendSlot(&a_);
  EXPECT_EQ(device_->Poll(), 0);
  device_->send_slots().Release(held[0]);
  EXPECT_EQ(device_->Poll(), 1);
  EXPECT_EQ(a_.slots, 1);
  EXPECT_EQ(b_.slots, 0);
  // The first one did not take it.
  EXPECT_EQ(device_->Poll(), 1);
  EXPECT_EQ(a_.slots, 1);
  EXPECT_EQ(b_.slots, 1);
  EXPECT_EQ(device_->Poll(), 0);
  device_->RemoveHandler(1);
  device_->RemoveHandler(2);
}

TEST_F(PollerDeviceTest, ForgetsAConnectionThatWaitedForASendSlot) {
  device_->AddHandler(1, &a_);
  device_->WaitForSendSlot(&a_);
  device_->RemoveHandler(1);
  EXPECT_EQ(device_->Poll(), 0);
  EXPECT_EQ(a_.slots, 0);
}

TEST_F(PollerDeviceTest, EndsEveryConnectionWhenNoReceiveCanBePosted) {
  ASSERT_TRUE(device_->Reserve().ok());
  device_->AddHandler(1, &a_);
  device_->AddHandler(2, &b_);
  for (size_t i = 0; i < verbs_.receives.size(); ++i) PushReceive(1, i, 10);
  verbs_.post_error = EIO;
  while (device_->Poll() > 0) {
  }
  EXPECT_GT(a_.errors, 0);
  EXPECT_GT(b_.errors, 0);
  verbs_.post_error = 0;
  device_->RemoveHandler(1);
  device_->RemoveHandler(2);
  device_->Release();
}

}  // namespace
}  // namespace verbena::transport
