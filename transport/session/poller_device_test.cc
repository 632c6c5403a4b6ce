#include "transport/device/poller_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/polling/poller.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/provider.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A connection on the fake device that writes down what it hears.
class FakeEnd final : private CallTable {
 public:
  FakeEnd(const Provider& provider, FakeVerbs& verbs, Poller& poller,
          PollerDevice& device, uint32_t qp_num)
      : qp_(MakeQp(verbs, qp_num)),
        id_(MakeId(&qp_)),
        connection(poller, device, device.shared_memory(),
                   CmId::Adopt(provider, &id_), {kInline, nullptr},
                   EndpointOptions(),
                   /*access=*/0, *this) {
    connection.SetPeerLimits(
        {.buffer_bytes = kBufferBytes, .credits = kCredits});
  }
  ~FakeEnd() { connection.DestroyQueuePair(); }

  void Send() {
    const FrameHeader header = Connection::PlainHeader(FrameType::kPong, 0);
    uint8_t* const out = connection.BeginFrame(sizeof(header), 0);
    ASSERT_NE(out, nullptr);
    std::memcpy(out, &header, sizeof(header));
    connection.Send(sizeof(header));
  }
  // Asks for a send buffer when there is none.
  void WaitForBuffer() {
    EXPECT_EQ(connection.BeginFrame(kInline + 1, 0), nullptr);
    connection.NoteWaiting();
  }

 private:
  static constexpr uint32_t kInline = 100;

  static ibv_qp MakeQp(FakeVerbs& verbs, uint32_t qp_num) {
    ibv_qp qp = *verbs.qp();
    qp.qp_num = qp_num;
    return qp;
  }
  static rdma_cm_id MakeId(ibv_qp* qp) {
    rdma_cm_id id = {};
    id.qp = qp;
    return id;
  }

  void OnFrame(absl::Span<const uint8_t> frame, bool /*plain*/) override {
    received.push_back(frame.size());
  }
  bool SendWaiting() override {
    ++tries;
    return true;
  }
  void OnTransferDone(void* /*tag*/) override {}
  void OnClosing() override {}
  void OnGoAway() override {}
  void OnTick(absl::Time /*now*/) override { ++ticks; }
  absl::Time NextTick() const override { return next_tick; }
  Keepalive::Silence silence() const override {
    return Keepalive::Silence::kFine;
  }

  ibv_qp qp_;
  rdma_cm_id id_;

 public:
  Connection connection;
  std::vector<size_t> received;
  int tries = 0;  // Times that it was told to send what waits.
  int ticks = 0;
  absl::Time next_tick = absl::InfiniteFuture();
};

class PollerDeviceTest : public testing::Test {
 protected:
  static constexpr uint32_t kConnections = 3;

  PollerDeviceTest() {
    PollerDevice::Options options;
    options.max_connections = kConnections;
    BufferPool::Options& pool = options.shared_pool.emplace();
    pool.access = IBV_ACCESS_LOCAL_WRITE;
    pool.first_region_bytes = 1 << 20;
    pool.max_bytes = 1 << 20;
    pool.max_regions = 1;
    pool.largest_bytes = 1 << 20;
    device_ = *PollerDevice::Create(provider_, verbs_.context(), options);
  }

  static Provider MakeProvider(const VerbsOps& table) {
    Provider provider = {"fake", table, {}};
    provider.verbs.modify_qp = [](ibv_qp* /*qp*/, ibv_qp_attr* /*attributes*/,
                                  int /*mask*/) { return 0; };
    provider.cm.destroy_qp = [](rdma_cm_id* id) { id->qp = nullptr; };
    provider.cm.destroy_id = [](rdma_cm_id* /*id*/) { return 0; };
    provider.cm.disconnect = [](rdma_cm_id* /*id*/) { return 0; };
    provider.verbs.query_device = [](ibv_context* /*context*/,
                                     ibv_device_attr* attributes) {
      attributes->max_qp_wr = 1000;
      attributes->max_srq_wr = 1000;
      attributes->max_cqe = 4000;
      return 0;
    };
    return provider;
  }

  MemoryDomain& memory() { return device_->shared_memory(); }

  // A connection, for which receives are reserved.
  std::unique_ptr<FakeEnd> Connect(uint32_t qp_num) {
    EXPECT_TRUE(device_->Reserve(memory()).ok());
    return std::make_unique<FakeEnd>(provider_, verbs_, *poller_, *device_,
                                     qp_num);
  }

  // The receive that was posted as number `index`, with a HELLO.
  void PushReceive(uint32_t qp_num, size_t index) {
    FrameHeader header = Connection::PlainHeader(FrameType::kHello, 0);
    header.credit_limit = kCredits;
    std::memcpy(reinterpret_cast<void*>(verbs_.receives[index].address),
                &header, sizeof(header));
    ibv_wc completion = {};
    completion.wr_id = verbs_.receives[index].wr_id;
    completion.opcode = IBV_WC_RECV;
    completion.qp_num = qp_num;
    completion.byte_len = sizeof(header);
    verbs_.completions.push_back(completion);
  }
  void PushSend(uint32_t qp_num, uint64_t wr_id) {
    ibv_wc completion = {};
    completion.wr_id = wr_id;
    completion.qp_num = qp_num;
    verbs_.completions.push_back(completion);
  }

  // An event of the completion queue, as the device raises when it is armed.
  void PushEvent() {
    ibv_comp_channel channel = {};
    channel.fd = device_->fd();
    verbs_.PushEvent(&channel, device_->QpAttributes(memory()).send_cq);
  }
  bool Readable() const {
    pollfd channel = {.fd = device_->fd(), .events = POLLIN, .revents = 0};
    return poll(&channel, 1, 0) == 1;
  }

  FakeVerbs verbs_;
  const Provider provider_ = MakeProvider(verbs_.table());
  std::unique_ptr<Poller> poller_ = *Poller::Create();
  std::unique_ptr<PollerDevice> device_;
};

TEST_F(PollerDeviceTest, TellsEveryConnectionWhatConcernsIt) {
  const auto a = Connect(7);
  const auto b = Connect(7 + 64);  // In the same place of the cache.
  a->Send();
  b->Send();
  PushReceive(7, 0);
  PushSend(7 + 64, 0);
  EXPECT_EQ(device_->Poll(), 2);
  EXPECT_THAT(a->received, ElementsAre(sizeof(FrameHeader)));
  EXPECT_FALSE(a->connection.sends_done());
  EXPECT_THAT(b->received, IsEmpty());
  EXPECT_TRUE(b->connection.sends_done());
  PushSend(7, 1);  // A GRANT that answered the HELLO.
  PushReceive(7 + 64, 1);
  EXPECT_EQ(device_->Poll(), 2);
  EXPECT_TRUE(a->connection.sends_done());
  EXPECT_THAT(b->received, ElementsAre(sizeof(FrameHeader)));
}

TEST_F(PollerDeviceTest, TellsNobodyWhatConcernsOneThatIsGone) {
  auto a = Connect(7);
  a->Send();
  PushSend(7, 0);
  EXPECT_EQ(device_->Poll(), 1);
  a.reset();
  PushSend(7, 1);
  PushReceive(7, 0);
  EXPECT_EQ(device_->Poll(), 2);
}

TEST_F(PollerDeviceTest, TicksEveryConnection) {
  const auto a = Connect(1);
  auto b = Connect(2);
  b->next_tick = absl::UnixEpoch();
  EXPECT_EQ(device_->NextTick(), absl::UnixEpoch());
  device_->Tick(absl::UnixEpoch());
  EXPECT_EQ(a->ticks, 1);
  EXPECT_EQ(b->ticks, 1);
  b.reset();
  EXPECT_EQ(device_->NextTick(), absl::InfiniteFuture());
}

TEST_F(PollerDeviceTest, LeavesAConnectionAloneThatNothingHappensTo) {
  const auto idle = Connect(1);
  const auto busy = Connect(2);
  absl::Time now = absl::UnixEpoch();
  device_->Tick(now);
  for (int i = 0; i < 2; ++i) {
    PushReceive(2, i);
    EXPECT_EQ(device_->Poll(), 1);
    device_->Tick(now += absl::Milliseconds(1));
  }
  EXPECT_EQ(idle->ticks, 1);
  EXPECT_EQ(busy->ticks, 3);
}

TEST_F(PollerDeviceTest, TicksAConnectionAtTheTimeThatItHasNamed) {
  const auto a = Connect(1);
  const auto b = Connect(2);
  const absl::Time start = absl::UnixEpoch();
  a->next_tick = start + absl::Minutes(2);
  b->next_tick = start + absl::Minutes(1);
  device_->Tick(start);
  EXPECT_EQ(device_->NextTick(), b->next_tick);
  device_->Tick(start + absl::Seconds(59));
  EXPECT_EQ(b->ticks, 1);
  b->next_tick = start + absl::Minutes(3);
  device_->Tick(start + absl::Minutes(1));
  EXPECT_EQ(a->ticks, 1);
  EXPECT_EQ(b->ticks, 2);
  EXPECT_EQ(device_->NextTick(), a->next_tick);
}

TEST_F(PollerDeviceTest, TicksConnectionsTogetherThatAreDueSoonAfterEachOther) {
  const auto a = Connect(1);
  const auto b = Connect(2);
  const absl::Time start = absl::UnixEpoch();
  a->next_tick = start + absl::Minutes(1);
  b->next_tick = a->next_tick + absl::Milliseconds(500);
  device_->Tick(start);
  device_->Tick(a->next_tick - absl::Milliseconds(1));
  EXPECT_EQ(b->ticks, 1);
  device_->Tick(a->next_tick);
  EXPECT_EQ(b->ticks, 2);
}

// A connection that wants its tick soon may be about to need something that
// nobody announces.
TEST_F(PollerDeviceTest, TicksAConnectionAllTheTimeThatWantsItSoon) {
  const auto a = Connect(1);
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 3; ++i) {
    a->next_tick = now + absl::Milliseconds(2);
    device_->Tick(now += absl::Milliseconds(1));
  }
  EXPECT_EQ(a->ticks, 3);
}

TEST_F(PollerDeviceTest, ReservesForAsManyConnectionsAsItWasMadeFor) {
  for (uint32_t i = 0; i < kConnections; ++i) {
    ASSERT_TRUE(device_->Reserve(memory()).ok());
  }
  const absl::Status full = device_->Reserve(memory());
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("all 3 connections"));
  device_->Release(memory());
  EXPECT_TRUE(device_->Reserve(memory()).ok());
  for (uint32_t i = 0; i < kConnections; ++i) device_->Release(memory());
}

TEST_F(PollerDeviceTest, KeepsRoomForIdleConnectionsWhileOthersGrow) {
  ASSERT_TRUE(device_->Reserve(memory()).ok());
  uint32_t grown = 0;
  while (const uint32_t more =
             device_->GrowReceives(memory().receives(), kCredits)) {
    grown += more;
  }
  EXPECT_EQ(grown, kConnections * (kCredits - kIdleCredits));
  for (uint32_t i = 1; i < kConnections; ++i) {
    EXPECT_TRUE(device_->Reserve(memory()).ok());
  }
  device_->ShrinkReceives(memory().receives(), 10);
  EXPECT_EQ(device_->GrowReceives(memory().receives(), kCredits), 10u);
  device_->ShrinkReceives(memory().receives(), grown);
  for (uint32_t i = 0; i < kConnections; ++i) device_->Release(memory());
}

TEST_F(PollerDeviceTest, TellsThoseThatWaitForASendBufferInTurn) {
  const auto a = Connect(1);
  const auto b = Connect(2);
  std::vector<uint32_t> held;
  while (memory().send_buffers().available()) {
    held.push_back(memory().send_buffers().Acquire());
  }
  // The reserve has a buffer for each connection, in whole slabs.
  EXPECT_EQ(held.size(), kMaxSendBuffers + SendBuffers::kSlabBuffers);
  a->WaitForBuffer();
  b->WaitForBuffer();
  a->WaitForBuffer();
  EXPECT_EQ(device_->Poll(), 0);
  memory().send_buffers().Release(held[0]);
  EXPECT_EQ(device_->Poll(), 1);
  EXPECT_EQ(a->tries, 1);
  EXPECT_EQ(b->tries, 0);
  // The first one did not take it.
  EXPECT_EQ(device_->Poll(), 1);
  EXPECT_EQ(a->tries, 1);
  EXPECT_EQ(b->tries, 1);
  EXPECT_EQ(device_->Poll(), 0);
}

TEST_F(PollerDeviceTest, ForgetsAConnectionThatWaitedForASendBuffer) {
  auto a = Connect(1);
  while (memory().send_buffers().available()) {
    memory().send_buffers().Acquire();
  }
  a->WaitForBuffer();
  a.reset();
  memory().send_buffers().Release(0);
  EXPECT_EQ(device_->Poll(), 0);
}

TEST_F(PollerDeviceTest, EndsEveryConnectionWhenNoReceiveCanBePosted) {
  const auto a = Connect(1);
  const auto b = Connect(2);
  for (size_t i = 0; i < verbs_.receives.size(); ++i) PushReceive(1, i);
  verbs_.post_error = EIO;
  while (device_->Poll() > 0) {
  }
  EXPECT_FALSE(a->connection.failure().ok());
  EXPECT_FALSE(b->connection.failure().ok());
  verbs_.post_error = 0;
}

TEST_F(PollerDeviceTest, EndsEveryConnectionWhenTheCompletionQueueFails) {
  const auto a = Connect(1);
  const auto b = Connect(2);
  verbs_.context()->ops.poll_cq = [](ibv_cq* /*cq*/, int /*count*/,
                                     ibv_wc* /*completions*/) { return -1; };
  EXPECT_EQ(device_->Poll(), 0);
  EXPECT_FALSE(a->connection.failure().ok());
  EXPECT_FALSE(b->connection.failure().ok());
  EXPECT_FALSE(device_->has_room());
  EXPECT_EQ(device_->Reserve(memory()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(PollerDeviceTest, LooksOnceForTheEventThatEndsASleep) {
  const auto a = Connect(7);
  for (int i = 0; i < 3; ++i) {
    a->Send();
    ASSERT_TRUE(device_->Arm().ok());
    PushEvent();
    device_->OnReadable();
    PushSend(7, static_cast<uint64_t>(i));
    EXPECT_EQ(device_->Poll(), 1);
  }
  EXPECT_EQ(verbs_.looks, 3);
  // As when another thread has woken the poller.
  ASSERT_TRUE(device_->Arm().ok());
  ASSERT_TRUE(device_->Arm().ok());
  EXPECT_EQ(verbs_.looks, 3);
}

// An event left in the channel would end the next sleep at once.
TEST_F(PollerDeviceTest, LeavesNoEventInTheChannelWhenItArmsAnew) {
  const auto a = Connect(7);
  a->Send();
  a->Send();
  ASSERT_TRUE(device_->Arm().ok());
  PushEvent();
  PushSend(7, 0);
  EXPECT_EQ(device_->Poll(), 1);  // Before anybody slept.
  EXPECT_TRUE(Readable());
  ASSERT_TRUE(device_->Arm().ok());
  EXPECT_FALSE(Readable());
  // Two, one of which has ended a sleep in vain.
  PushEvent();
  device_->OnReadable();
  ASSERT_TRUE(device_->Arm().ok());
  PushEvent();
  PushSend(7, 1);
  EXPECT_EQ(device_->Poll(), 1);
  ASSERT_TRUE(device_->Arm().ok());
  EXPECT_FALSE(Readable());
  EXPECT_EQ(verbs_.unacked, 0);
}

// A poller that could not arm it would never sleep again.
TEST_F(PollerDeviceTest, AsksForNoEventsOfACompletionQueueThatHasFailed) {
  const auto a = Connect(1);
  verbs_.context()->ops.req_notify_cq =
      [](ibv_cq* /*cq*/, int /*solicited_only*/) { return EIO; };
  EXPECT_FALSE(device_->Arm().ok());
  EXPECT_FALSE(a->connection.failure().ok());
  EXPECT_TRUE(device_->Arm().ok());
}

}  // namespace
}  // namespace verbena::transport
