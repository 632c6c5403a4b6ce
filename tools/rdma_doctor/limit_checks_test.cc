#include "tools/rdma_doctor/limit_checks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;

class LimitChecksTest : public testing::Test {
 protected:
  std::string Memlock(bool has_devices = true) {
    report_.Clear();
    Findings findings(&report_);
    CheckMemlock(machine_.root(), has_devices, &findings);
    return Levels(report_);
  }
  std::string Run(void (*check)(const SystemRoot&, Findings*)) {
    report_.Clear();
    Findings findings(&report_);
    check(machine_.root(), &findings);
    return Levels(report_);
  }
  std::string Seen() const { return report_.findings(0).seen(); }
  std::string Mend() const { return report_.findings(0).mend(); }

  FakeMachine machine_;
  Report report_;
};

TEST_F(LimitChecksTest, UnlimitedMemoryIsWell) {
  machine_.SetMemlock("unlimited", "unlimited");
  EXPECT_EQ(Memlock(), "memlock: ok\n");
}

TEST_F(LimitChecksTest, TooLittleMemoryIsAnErrorWithADeviceOnly) {
  machine_.SetMemlock("65536", "65536");
  EXPECT_EQ(Memlock(), "memlock: error\n");
  EXPECT_EQ(Seen(), "this process may lock 64 KiB (hard limit: 64 KiB)");
  EXPECT_THAT(Mend(), HasSubstr("/etc/security/limits.d/"));
  EXPECT_EQ(Memlock(/*has_devices=*/false), "memlock: note\n");
}

TEST_F(LimitChecksTest, SomeMemoryIsWarnedOf) {
  machine_.SetMemlock("67108864", "unlimited");
  EXPECT_EQ(Memlock(), "memlock: warning\n");
  EXPECT_EQ(Mend(), "ulimit -l unlimited");
}

TEST_F(LimitChecksTest, NoLimitHoldsForThePrivileged) {
  machine_.SetMemlock("65536", "65536");
  machine_.Write("/proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_EQ(Memlock(), "memlock: ok\n");
}

TEST_F(LimitChecksTest, TheMendIsForWhereTheProcessRuns) {
  machine_.SetMemlock("65536", "65536");
  machine_.Write("/proc/self/cgroup", "0::/system.slice/shop.service\n");
  Memlock();
  EXPECT_THAT(Mend(), HasSubstr("systemctl edit UNIT"));
  machine_.Write("/proc/self/cgroup",
                 "0::/user.slice/user-0.slice/user@0.service/x\n");
  Memlock();
  EXPECT_THAT(Mend(), HasSubstr("/etc/security/limits.d/"));
  machine_.Write("/.dockerenv", "");
  Memlock();
  EXPECT_THAT(Mend(), HasSubstr("--ulimit memlock=-1"));
  machine_.Write("/proc/self/environ", "KUBERNETES_SERVICE_HOST=1");
  Memlock();
  EXPECT_THAT(Mend(), HasSubstr("IPC_LOCK"));
}

TEST_F(LimitChecksTest, ServicesHaveADefaultOfTheirOwn) {
  machine_.SetMemlock("unlimited", "unlimited");
  machine_.MakeFolder("/run/systemd/system");
  EXPECT_EQ(Memlock(), "memlock: ok\nmemlock: warning\n");
  EXPECT_THAT(report_.findings(1).seen(), HasSubstr(" 8M "));
  EXPECT_EQ(Memlock(/*has_devices=*/false), "memlock: ok\nmemlock: note\n");
  machine_.Write("/etc/systemd/system.conf",
                 "[Manager]\n#DefaultLimitMEMLOCK=8M\n"
                 "DefaultLimitMEMLOCK=1M\n");
  Memlock();
  EXPECT_THAT(report_.findings(1).seen(), HasSubstr(" 1M "));
  machine_.Write("/etc/systemd/system.conf.d/rdma.conf",
                 "[Manager]\nDefaultLimitMEMLOCK=infinity\n");
  EXPECT_EQ(Memlock(), "memlock: ok\nmemlock: ok\n");
}

TEST_F(LimitChecksTest, FewDescriptorsAreNoted) {
  machine_.Write("/proc/self/limits", "Max open files   1024   4096   files\n");
  EXPECT_EQ(Run(CheckUlimits), "ulimits: note\n");
  machine_.Write("/proc/self/limits",
                 "Max open files   65536   65536   files\n"
                 "Max address space   1073741824   unlimited   bytes\n");
  EXPECT_EQ(Run(CheckUlimits), "ulimits: ok\nulimits: warning\n");
}

TEST_F(LimitChecksTest, ReadsItsControlGroup) {
  EXPECT_EQ(Run(CheckCgroups), "");
  machine_.Write("/proc/self/cgroup", "0::/shop\n");
  machine_.Write("/sys/fs/cgroup/shop/rdma.max",
                 "mlx5_0 hca_handle=max hca_object=max\n"
                 "mlx5_1 hca_handle=2 hca_object=2000\n");
  machine_.Write("/sys/fs/cgroup/shop/memory.max", "max\n");
  EXPECT_EQ(Run(CheckCgroups), "cgroup: ok\ncgroup: warning\n");
  EXPECT_EQ(report_.findings(1).mend(),
            "echo 'mlx5_1 hca_handle=max hca_object=max' "
            ">/sys/fs/cgroup/shop/rdma.max");
  machine_.Write("/sys/fs/cgroup/shop/rdma.max", "");
  machine_.Write("/sys/fs/cgroup/shop/memory.max", "67108864\n");
  EXPECT_EQ(Run(CheckCgroups), "cgroup: warning\n");
  EXPECT_EQ(Seen(), "memory: 64 MiB");
}

TEST_F(LimitChecksTest, ReadsControlGroupsOfVersionOne) {
  machine_.Write("/proc/self/cgroup", "4:cpu,memory:/a\n3:rdma:/b\n0::/\n");
  machine_.Write("/sys/fs/cgroup/rdma/b/rdma.max",
                 "mlx5_0 hca_handle=1 hca_object=max\n");
  machine_.Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                 "9223372036854771712\n");
  EXPECT_EQ(Run(CheckCgroups), "cgroup: warning\n");
}

TEST_F(LimitChecksTest, LooksForHugePages) {
  EXPECT_EQ(Run(CheckHugePages), "hugepages: note\n");
  machine_.Write("/sys/kernel/mm/transparent_hugepage/enabled",
                 "always [madvise] never\n");
  EXPECT_EQ(Run(CheckHugePages), "hugepages: ok\n");
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  machine_.Write(folder + "/nr_hugepages", "16\n");
  machine_.Write(folder + "/free_hugepages", "7\n");
  EXPECT_EQ(Run(CheckHugePages), "hugepages: ok\n");
  EXPECT_EQ(Seen(), "of 16 pages of 2 MiB 7 are free");
}

}  // namespace
}  // namespace verbena::doctor
