// Devices without shared receive queues: each connection has its own receives.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/faulty/fault_plan.h"
#include "transport/faulty/real_devices.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing_support::TestClient;
using testing_support::TestOptions;

const DeviceNumbers& WithoutSharedReceives() {
  for (const DeviceNumbers& device : RealDevices()) {
    if (device.shared_receives == 0) return device;
  }
  CHECK(false) << "none of the devices";
}

class OwnReceivesTest : public FaultyFixture {
 protected:
  OwnReceivesTest() {
    plan_.BeDevice(WithoutSharedReceives());
    faulty_.SetPlan(plan_);
  }

  // The device takes no receives from call `n` on.
  void RefuseReceivesFrom(uint64_t n, FaultPlan& plan) {
    plan.BeDevice(WithoutSharedReceives());
    plan.FailCall("post_recv", n, EIO, UINT64_MAX);
    faulty_.SetPlan(plan);
  }

  static std::unique_ptr<RawPeer> Flooder(const std::string& address) {
    RawPeer::Options options;
    options.keeps_to_credits = false;
    std::unique_ptr<RawPeer> raw = *RawPeer::Create(address, options);
    const absl::Status opened = raw->Open();
    EXPECT_TRUE(opened.ok()) << opened;
    return raw;
  }
  // Fails as soon as the server has had enough.
  static void Flood(RawPeer& raw) {
    const std::string ping = FrameText(raw.Header(FrameType::kPing));
    for (int i = 0; i < 1000 && raw.Send(ping).ok(); ++i) {
    }
    EXPECT_TRUE(raw.AwaitEnd().ok());
  }

  FaultPlan plan_;
};

TEST_F(OwnReceivesTest, AFloodEndsItsOwnConnectionAlone) {
  FaultyServer server(faulty_, TestOptions());
  ASSERT_TRUE(server.status().ok()) << server.status();
  TestClient good(server.address());
  ASSERT_EQ(good.Echo(100), absl::OkStatus());
  Flood(*Flooder(server.address()));
  EXPECT_EQ(good.Echo(100), absl::OkStatus());
  EXPECT_EQ(good.Echo(100000), absl::OkStatus());
}

TEST_F(OwnReceivesTest, TenFloodersStarveNobodyWhoComesAfterThem) {
  FaultyServer server(faulty_, TestOptions());
  ASSERT_TRUE(server.status().ok()) << server.status();
  std::vector<std::unique_ptr<RawPeer>> raws;
  std::vector<std::thread> floods;
  for (int i = 0; i < 10; ++i) {
    raws.push_back(Flooder(server.address()));
    floods.emplace_back([raw = raws.back().get()] { Flood(*raw); });
  }
  TestClient late(server.address());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(late.Echo(100), absl::OkStatus());
  for (std::thread& flood : floods) flood.join();
}

TEST_F(OwnReceivesTest, AServerWithoutReceivesFailsItsClientsAndEnds) {
  for (uint64_t n = 1; n <= 4; ++n) {
    SCOPED_TRACE(absl::StrCat("from call ", n));
    FaultPlan plan;
    RefuseReceivesFrom(n, plan);
    {
      FaultyServer server(faulty_, TestOptions());
      ExpectClear(server.status());
      if (server.status().ok()) {
        FailedClients(server.address(), TestOptions(), kAtOnce / 2);
      }
    }
    EXPECT_GT(plan.faults().size(), 0u);
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }
}

TEST_F(OwnReceivesTest, AClientWithoutReceivesSaysSoAndLeavesNothing) {
  testing_support::TestServer server(TestOptions());
  for (uint64_t n = 1; n <= 2; ++n) {
    SCOPED_TRACE(absl::StrCat("from call ", n));
    FaultPlan plan;
    RefuseReceivesFrom(n, plan);
    const absl::Status status =
        Use(faulty_.provider(), server.address(), TestOptions(), kAtOnce / 2);
    EXPECT_FALSE(status.ok());
    ExpectClear(status);
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }
}

}  // namespace
}  // namespace verbena::transport
