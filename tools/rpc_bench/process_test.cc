#include "tools/rpc_bench/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::ElementsAre;

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

}  // namespace
}  // namespace verbena::bench
