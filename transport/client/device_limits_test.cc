#include "transport/device/device_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/client/client_calls.h"
#include "transport/device/poller_device.h"
#include "transport/polling/poller.h"
#include "transport/session/call_table.h"
#include "transport/session/connection.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/fake_verbs.h"
#include "transport/verbs/provider.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoCalls final : public CallTable {
 private:
  void OnFrame(absl::Span<const uint8_t> /*frame*/, bool /*plain*/) override {}
  bool SendWaiting() override { return false; }
  void OnTransferDone(void* /*tag*/) override {}
  void OnClosing() override {}
  void OnGoAway() override {}
  void OnTick(absl::Time /*now*/) override {}
  absl::Time NextTick() const override { return absl::InfiniteFuture(); }
  Keepalive::Silence silence() const override {
    return Keepalive::Silence::kFine;
  }
};

class DeviceLimitsTest : public testing::Test {
 protected:
  DeviceLimitsTest() {
    ibv_device_attr& attributes = verbs_.attributes;
    attributes.max_qp_wr = 16384;
    attributes.max_srq_wr = 1000;
    attributes.max_cqe = 4000;
    attributes.max_qp_rd_atom = attributes.max_qp_init_rd_atom = 128;
  }

  static Provider MakeProvider(const VerbsOps& table) {
    Provider provider = {"fake", table, {}};
    provider.verbs.modify_qp = [](ibv_qp* /*qp*/, ibv_qp_attr* /*attributes*/,
                                  int /*mask*/) { return 0; };
    provider.cm.create_qp = FakeVerbs::CreateCmQp;
    provider.cm.destroy_qp = [](rdma_cm_id* id) { id->qp = nullptr; };
    provider.cm.destroy_id = [](rdma_cm_id* /*id*/) { return 0; };
    provider.cm.disconnect = [](rdma_cm_id* /*id*/) { return 0; };
    return provider;
  }

  static BufferPool::Options SmallPool() {
    BufferPool::Options pool;
    pool.access = IBV_ACCESS_LOCAL_WRITE;
    pool.first_region_bytes = pool.max_bytes = pool.largest_bytes = 1 << 20;
    pool.max_regions = 1;
    return pool;
  }
  absl::StatusOr<std::unique_ptr<PollerDevice>> Create() {
    PollerDevice::Options options;
    options.max_connections = 3;
    options.shared_pool = SmallPool();
    return PollerDevice::Create(provider_, verbs_.context(), options);
  }
  absl::StatusOr<uint32_t> MakeQueuePair(PollerDevice& device) {
    rdma_cm_id raw = {};
    CmId id = CmId::Adopt(provider_, &raw);
    absl::StatusOr<PollerDevice::QueuePair> made =
        device.MakeQueuePair(id, device.shared_memory());
    if (!made.ok()) return made.status();
    return made->inline_bytes;
  }

  FakeVerbs verbs_;
  const Provider provider_ = MakeProvider(verbs_.table());
};

TEST_F(DeviceLimitsTest, AsksDownwardsForBytesInlineOnce) {
  verbs_.inline_bytes = 80;  // As siw.
  const auto device = *Create();
  EXPECT_EQ(MakeQueuePair(*device).value_or(0), 64u);
  EXPECT_THAT(verbs_.inline_asked, ElementsAre(220, 96, 64));
  verbs_.inline_asked.clear();
  EXPECT_EQ(MakeQueuePair(*device).value_or(0), 64u);
  EXPECT_THAT(verbs_.inline_asked, ElementsAre(64));
}

// Some versions of librdmacm answer ENOMEM for all that a device refuses, and
// other devices do when they are short of memory, which may pass.
TEST_F(DeviceLimitsTest, AsksDownwardsAnewAfterEnomem) {
  verbs_.inline_bytes = 0;
  verbs_.inline_refusal = ENOMEM;
  const auto device = *Create();
  EXPECT_EQ(MakeQueuePair(*device).value_or(1), 0u);
  EXPECT_THAT(verbs_.inline_asked, ElementsAre(220, 96, 64, 32, 0));
  verbs_.inline_bytes = 1024;
  EXPECT_EQ(MakeQueuePair(*device).value_or(0), 220u);
}

TEST_F(DeviceLimitsTest, AsksForNoMoreReadsThanTheDeviceHas) {
  verbs_.attributes.max_qp_rd_atom = 4;
  verbs_.attributes.max_qp_init_rd_atom = 255;
  const DeviceLimits limits = *QueryLimits(provider_, verbs_.context());
  EXPECT_EQ(limits.reads_answered, 4);
  EXPECT_EQ(limits.reads_made, kReadDepth);
}

TEST_F(DeviceLimitsTest, AsksForNoDeeperSendQueueThanTheDeviceHas) {
  verbs_.attributes.max_qp_wr = 32;
  const auto device = *Create();
  EXPECT_EQ(device->QpAttributes(device->shared_memory()).cap.max_send_wr, 32u);
  verbs_.attributes.max_qp_wr = 2;
  EXPECT_THAT(Create().status().message(),
              HasSubstr("fake is too small: it offers 1000 shared receives, "
                        "4000 completions and 2 work requests"));
}

TEST_F(DeviceLimitsTest, SharesNoReceivesOnIwarp) {
  const auto shared = *Create();
  EXPECT_NE(shared->QpAttributes(shared->shared_memory()).srq, nullptr);
  verbs_.BeIwarp();
  const auto device = *Create();
  const ibv_qp_init_attr own = device->QpAttributes(device->shared_memory());
  EXPECT_EQ(own.srq, nullptr);
  EXPECT_GT(own.cap.max_recv_wr, kCredits + kGrantReceives);
}

// The device has receives for little more than one window beyond the idle ones.
TEST_F(DeviceLimitsTest, WindowsOfOwnReceivesShareABoundedMemory) {
  verbs_.BeIwarp();
  verbs_.attributes.max_cqe = 450;
  const auto device = *Create();
  MemoryDomain& memory = device->shared_memory();
  std::vector<PollerDevice::QueuePair> made;
  for (int i = 0; i < 2; ++i) {
    rdma_cm_id raw = {};
    CmId id = CmId::Adopt(provider_, &raw);
    ASSERT_TRUE(device->Reserve(memory).ok());
    made.push_back(*device->MakeQueuePair(id, memory));
  }
  const auto grow = [&](ReceiveBuffers& receives) {
    uint32_t grown = 0;
    while (const uint32_t more = device->GrowReceives(
               receives, std::min(receives.room(), kCredits))) {
      grown += more;
    }
    return grown;
  };
  const uint32_t first = grow(*made[0].receives);
  EXPECT_EQ(first, kCredits - kIdleCredits);
  const uint32_t second = grow(*made[1].receives);
  EXPECT_LT(second, first);
  // A window that shrinks leaves nothing to others; a connection that ends
  // does.
  device->ShrinkReceives(*made[0].receives, first);
  EXPECT_EQ(grow(*made[1].receives), 0u);
  made[0].receives->Leave();
  device->Release(memory);
  EXPECT_EQ(second + grow(*made[1].receives), first);
  device->Release(memory);
}

// siw drops the marker that is posted to a queue pair in the error state.
TEST_F(DeviceLimitsTest, WaitsBrieflyForTheMarkerOnIwarp) {
  verbs_.BeIwarp();
  const auto device = *Create();
  const auto poller = *Poller::Create();
  ASSERT_TRUE(device->Reserve(device->shared_memory()).ok());
  rdma_cm_id raw = {};
  raw.qp = verbs_.qp();
  NoCalls calls;
  Connection connection(
      *poller, *device, device->shared_memory(), CmId::Adopt(provider_, &raw),
      {/*inline_bytes=*/64, nullptr}, EndpointOptions(), /*access=*/0, calls);
  const absl::Time begin = base::Now();
  connection.Close(absl::UnavailableError("enough"));
  EXPECT_EQ(verbs_.sends.size(), 1u);
  while (!connection.closed()) device->Tick(base::Now());
  EXPECT_LT(base::Now() - begin, absl::Seconds(1));
  connection.DestroyQueuePair();
}

// siw overlooks a HELLO that arrives too early, until the next bytes arrive.
TEST_F(DeviceLimitsTest, SendsNothingAgainAndAgainToASilentServerOnIwarp) {
  verbs_.BeIwarp();
  const auto device = *Create();
  const auto poller = *Poller::Create();
  const auto memory = *device->MakeMemory(SmallPool());
  ASSERT_TRUE(device->Reserve(*memory).ok());
  rdma_cm_id raw = {};
  CmId id = CmId::Adopt(provider_, &raw);
  PollerDevice::QueuePair made = *device->MakeQueuePair(id, *memory);
  ClientCalls calls(*poller, *device, *memory, std::move(id), std::move(made),
                    EndpointOptions(), /*on_change=*/[] {});
  ConnectReply reply;
  reply.limits.buffer_bytes = kBufferBytes;
  reply.limits.credits = reply.limits.max_open_calls = 1;
  reply.limits.max_receive_message_bytes = kBufferBytes;
  ASSERT_TRUE(calls.Begin({}, reply).ok());
  absl::Time now = base::Now();
  device->Tick(now);
  ASSERT_EQ(verbs_.sends.size(), 1u);
  for (size_t sent = 2; sent < 10; ++sent) {
    now += absl::Seconds(2);
    device->Tick(now);
    ASSERT_EQ(verbs_.sends.size(), sent);
    EXPECT_EQ(verbs_.sends.back().opcode, IBV_WR_RDMA_WRITE);
    EXPECT_EQ(verbs_.sends.back().length, 0u);
  }
  calls.connection().Close(absl::UnavailableError("enough"));
  while (!calls.connection().closed()) device->Tick(base::Now());
}

// siw forgets bytes that come while a queue pair is being modified.
TEST_F(DeviceLimitsTest, ModifiesNoQueuePairThatIsConnectedOnIwarp) {
  verbs_.BeIwarp();
  Provider provider = provider_;
  provider.verbs.modify_qp = [](ibv_qp* /*qp*/, ibv_qp_attr* attributes,
                                int /*mask*/) {
    return attributes->qp_state == IBV_QPS_ERR ? 0 : EINVAL;
  };
  PollerDevice::Options options;
  options.max_connections = 1;
  options.shared_pool = SmallPool();
  const auto device =
      *PollerDevice::Create(provider, verbs_.context(), options);
  const auto poller = *Poller::Create();
  ASSERT_TRUE(device->Reserve(device->shared_memory()).ok());
  rdma_cm_id raw = {};
  raw.qp = verbs_.qp();
  NoCalls calls;
  Connection connection(
      *poller, *device, device->shared_memory(), CmId::Adopt(provider, &raw),
      {/*inline_bytes=*/64, nullptr}, EndpointOptions(), /*access=*/0, calls);
  EXPECT_TRUE(connection.FixQueuePair().ok());
  connection.Close(absl::UnavailableError("enough"));
  while (!connection.closed()) device->Tick(base::Now());
  connection.DestroyQueuePair();
}

}  // namespace
}  // namespace verbena::transport
