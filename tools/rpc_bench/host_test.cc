#include "tools/rpc_bench/host.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ProcessTest, TimeOfAProcessorGrowsWithWork) {
  const absl::Duration before = CpuUsed();
  while (CpuUsed() - before < absl::Milliseconds(2)) {
  }
  const absl::StatusOr<absl::Duration> outside = CpuUsedBy(getpid());
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_GE(*outside, before + absl::Milliseconds(2));
}

TEST(ProcessTest, AProcessThatIsGoneHasNoTime) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(CpuUsedBy(child).ok());
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
  EXPECT_THAT(HardwareCounters("rxe0", devices_),
              ElementsAre(Pair("rcvd_rnr_err", 7)));
}

TEST_F(HwCountersTest, ADeviceWithoutCountersHasNone) {
  EXPECT_THAT(HardwareCounters("soft", devices_), IsEmpty());
}

TEST_F(HwCountersTest, GrowthIsTheDifference) {
  EXPECT_THAT(CounterGrowth({{"a", 1}, {"b", 5}}, {{"a", 4}, {"b", 5}}),
              ElementsAre(Pair("a", 3), Pair("b", 0)));
}

}  // namespace
}  // namespace verbena::bench
