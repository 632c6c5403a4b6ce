#include "tools/rpc_bench/host.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/child/child_process.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(ProcessTest, TimeOfAProcessorGrowsWithWork) {
  const absl::Duration before = CpuUsed();
  while (CpuUsed() - before < absl::Milliseconds(2)) {
  }
  const absl::StatusOr<absl::Duration> outside = CpuUsedBy(getpid());
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_GE(*outside, before + absl::Milliseconds(2));
}

TEST(ProcessTest, AProcessThatIsGoneHasNoTime) {
  tools::ChildProcess child({"/bin/true"});
  const pid_t pid = child.pid();
  EXPECT_TRUE(CpuUsedBy(pid).ok());
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_FALSE(CpuUsedBy(pid).ok());
}

TEST(ProcessTest, PinsAThreadToOneProcessor) {
  std::thread([] {
    const int last = AllowedProcessors().back();
    EXPECT_EQ(PinTo(last), absl::OkStatus());
    EXPECT_THAT(AllowedProcessors(), ElementsAre(last));
    // Those started from it stay there too.
    std::thread([last] {
      EXPECT_THAT(AllowedProcessors(), ElementsAre(last));
    }).join();
  }).join();
}

TEST(ProcessTest, RefusesAProcessorThatIsNotThere) {
  EXPECT_FALSE(PinTo(1023).ok());
  EXPECT_FALSE(PinTo(-1).ok());
}

class HwCountersTest : public testing::Test {
 protected:
  void Write(const std::string& port, const std::string& name,
             const std::string& value) {
    const std::filesystem::path directory = std::filesystem::path(devices_) /
                                            "rxe0" / "ports" / port /
                                            "hw_counters";
    std::filesystem::create_directories(directory);
    std::ofstream(directory / name) << value;
  }

  const std::string devices_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(HwCountersTest, AddsUpThePorts) {
  Write("1", "rcvd_rnr_err", "3\n");
  Write("2", "rcvd_rnr_err", "4\n");
  Write("1", "lifespan", "10\n");
  Counters counters;
  AddHardwareCounters("rxe0", 1, counters, devices_);
  EXPECT_THAT(counters, ElementsAre(Pair("rcvd_rnr_err", 7)));
}

TEST_F(HwCountersTest, ADeviceWithoutCountersHasNone) {
  Counters counters;
  AddHardwareCounters("soft", 1, counters, devices_);
  EXPECT_THAT(counters, IsEmpty());
}

TEST_F(HwCountersTest, GrowthIsWhatIsLeft) {
  Counters counters;
  Write("1", "a", "1\n");
  Write("1", "b", "5\n");
  AddHardwareCounters("rxe0", -1, counters, devices_);
  Write("1", "a", "4\n");
  AddHardwareCounters("rxe0", 1, counters, devices_);
  EXPECT_THAT(counters, UnorderedElementsAre(Pair("a", 3), Pair("b", 0)));
}

TEST(LocalDevicesTest, HaveTheContextThatConnectionsGet) {
  const transport::Provider& soft = *transport::ListenProviders("soft").front();
  const std::map<std::string, LocalDevice> devices = LocalDevices(soft);
  ASSERT_EQ(devices.size(), 1u);
  const LocalDevice& device = devices.at("soft");
  EXPECT_EQ(device.name, "soft");
  EXPECT_EQ(device.address, "127.0.0.1:0");
  ASSERT_NE(device.context, nullptr);
  EXPECT_EQ(LocalDevices(soft).at("soft").context, device.context);
}

TEST(ChooseLocalDeviceTest, IsTheOneThatIsWanted) {
  const absl::StatusOr<LocalDevice> device = ChooseLocalDevice("soft");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "soft");
  EXPECT_EQ(device->address, "127.0.0.1:0");
}

TEST(ChooseLocalDeviceTest, IsThereWithoutAWish) {
  EXPECT_TRUE(ChooseLocalDevice("").ok());
}

TEST(ChooseLocalDeviceTest, FailsForADeviceThatIsNotThere) {
  const absl::Status status = ChooseLocalDevice("nonesuch0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no device \"nonesuch0\" on this"));
  EXPECT_THAT(status.message(), HasSubstr("soft"));
}

}  // namespace
}  // namespace verbena::bench
