#include "tools/rdma_doctor/kernel_checks.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class KernelChecksTest : public testing::Test {
 protected:
  // Runs all checks of kernel_checks.h, and returns their findings.
  const Report& Check() {
    report_.Clear();
    Findings findings(&report_);
    const SystemRoot root = machine_.root();
    const std::vector<Device> devices = ReadDevices(root);
    CheckPresence(root, devices, &findings);
    CheckModules(root, devices, &findings);
    CheckNodes(root, devices, &findings);
    CheckConnectionManager(root, devices, &findings);
    CheckFork(root, devices, &findings);
    return report_;
  }
  // Returns the last finding of `level`.
  Finding Last(Finding::Level level) {
    Finding found;
    for (const Finding& each : report_.findings()) {
      if (each.level() == level) found = each;
    }
    return found;
  }

  FakeMachine machine_;
  Report report_;
};

TEST_F(KernelChecksTest, AWholeDeviceIsWell) {
  machine_.AddDevice("mlx5_0", "uverbs0", "ens1");
  EXPECT_EQ(Levels(Check()),
            "devices: ok\nmodules: ok\nnodes: ok\nrdma_cm: ok\n");
}

TEST_F(KernelChecksTest, OldKernelsAndForksDoNotGoTogether) {
  machine_.AddDevice("mlx5_0", "uverbs0", "ens1");
  for (const char* const release : {"4.18.0-553.el8", "5.11.22"}) {
    machine_.Write("/proc/sys/kernel/osrelease", std::string(release) + "\n");
    EXPECT_EQ(
        Levels(Check()),
        "devices: ok\nmodules: ok\nnodes: ok\nrdma_cm: ok\nfork: warning\n");
    EXPECT_THAT(Last(Finding::warning).seen(), HasSubstr(release));
  }
  machine_.Write("/proc/sys/kernel/osrelease", "5.12.0\n");
  EXPECT_THAT(Levels(Check()), testing::Not(HasSubstr("fork")));
}

TEST_F(KernelChecksTest, NobodyIsToldToLoadWhatTheKernelWasBuiltWithout) {
  machine_.Write("/proc/sys/kernel/osrelease", "6.1.0\n");
  machine_.Write("/boot/config-6.1.0", "# CONFIG_INFINIBAND is not set\n");
  EXPECT_EQ(Levels(Check()), "devices: note\nmodules: note\n");
  EXPECT_THAT(report_.findings(0).seen(), HasSubstr("built without RDMA"));
  EXPECT_THAT(report_.findings(0).mend(), HasSubstr("linux-image"));
  EXPECT_EQ(report_.findings(1).mend(), "");
}

TEST_F(KernelChecksTest, TheKernelsOwnCopyOfItsConfigurationDoesToo) {
  std::string packed;
  {
    google::protobuf::io::StringOutputStream bytes(&packed);
    google::protobuf::io::GzipOutputStream gzip(&bytes);
    google::protobuf::io::CodedOutputStream text(&gzip);
    text.WriteString("CONFIG_PCI=y\n# CONFIG_INFINIBAND is not set\n");
  }
  machine_.Write("/proc/config.gz", packed);
  EXPECT_EQ(Levels(Check()), "devices: note\nmodules: note\n");
}

TEST_F(KernelChecksTest, AMachineWithoutRdmaIsNoError) {
  machine_.Write("/sys/class/net/enp2/operstate", "up\n");
  EXPECT_EQ(Levels(Check()), "devices: note\nmodules: note\n");
  EXPECT_EQ(report_.findings(0).mend(),
            "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev enp2");
  EXPECT_THAT(report_.findings(0).meaning(), HasSubstr("software device"));
  EXPECT_THAT(report_.findings(1).mend(), HasSubstr("modprobe ib_uverbs"));
}

TEST_F(KernelChecksTest, AKernelWithoutTheModulesNeedsAnother) {
  machine_.Write("/proc/sys/kernel/osrelease", "6.1.0-9-cloud\n");
  machine_.Write("/lib/modules/6.1.0-9-cloud/modules.dep",
                 "kernel/net/x.ko:\n");
  Check();
  EXPECT_THAT(Last(Finding::note).mend(), HasSubstr("apt-get install"));
  machine_.Write("/lib/modules/6.1.0-9-cloud/modules.dep",
                 "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: x\n"
                 "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: x\n");
  Check();
  EXPECT_THAT(Last(Finding::note).mend(), HasSubstr("modprobe ib_uverbs"));
}

TEST_F(KernelChecksTest, AModulesFileMayHaveHyphens) {
  machine_.Load("hns3");
  machine_.Write("/proc/sys/kernel/osrelease", "6.1.0\n");
  machine_.Write("/lib/modules/6.1.0/modules.dep",
                 "kernel/drivers/infiniband/hw/hns/hns-roce-hw-v2.ko.xz: x\n");
  Check();
  EXPECT_THAT(Last(Finding::warning).mend(),
              StartsWith("modprobe hns_roce_hw_v2;"));
}

TEST_F(KernelChecksTest, ADeviceThatIsAskedForMustBeThere) {
  machine_.Write("/proc/self/environ", "VERBENA_DEVICE=rxe0");
  EXPECT_EQ(Check().errors(), 1);
  EXPECT_THAT(Last(Finding::error).mend(), HasSubstr("rdma link add rxe0"));
  machine_.Write("/proc/self/environ", "VERBENA_DEVICE=soft");
  EXPECT_EQ(Check().errors(), 0);
  machine_.Write("/proc/self/environ", "VERBENA_DEVICE=rxe0");
  machine_.AddDevice("rxe0", "uverbs0", "eth0");
  EXPECT_EQ(Check().errors(), 0);
}

TEST_F(KernelChecksTest, MissesModules) {
  machine_.AddDevice("mlx5_0", "uverbs0", "ens1");
  machine_.Remove("/sys/module/rdma_ucm");
  EXPECT_EQ(Check().errors(), 1);
  EXPECT_THAT(Last(Finding::error).mend(), HasSubstr("modprobe rdma_ucm;"));
  machine_.Load("rdma_ucm");
  machine_.Remove("/sys/module/ib_uverbs");
  machine_.Remove("/sys/class/infiniband_verbs");
  EXPECT_EQ(Check().errors(), 1);
  EXPECT_THAT(Last(Finding::error).mend(), HasSubstr("modprobe ib_uverbs;"));
}

TEST_F(KernelChecksTest, MissesTheHalfOfACardsDriver) {
  machine_.Load("mlx5_core");
  EXPECT_EQ(Check().warnings(), 1);
  EXPECT_THAT(Last(Finding::warning).mend(), HasSubstr("modprobe mlx5_ib"));
  machine_.Load("mlx5_ib");
  EXPECT_EQ(Check().warnings(), 0);
}

TEST_F(KernelChecksTest, MissesNodes) {
  machine_.AddDevice("mlx5_0", "uverbs0", "ens1");
  machine_.Remove("/dev/infiniband/uverbs0");
  EXPECT_EQ(Levels(Check()),
            "devices: ok\nmodules: ok\nnodes: error\nrdma_cm: ok\n");
  EXPECT_THAT(Last(Finding::error).mend(), HasSubstr("udevadm trigger"));
  machine_.Write("/dev/infiniband/uverbs0", "");
  machine_.Remove("/dev/infiniband/rdma_cm");
  EXPECT_EQ(Levels(Check()),
            "devices: ok\nmodules: ok\nnodes: ok\nrdma_cm: error\n");
}

TEST_F(KernelChecksTest, InAContainerTheHostMustMend) {
  machine_.AddDevice("mlx5_0", "uverbs0", "ens1");
  machine_.Write("/.dockerenv", "");
  machine_.Remove("/dev/infiniband/uverbs0");
  Check();
  EXPECT_THAT(Last(Finding::error).mend(),
              HasSubstr("--device=/dev/infiniband"));
}

}  // namespace
}  // namespace verbena::doctor
