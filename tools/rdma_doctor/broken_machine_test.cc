// Breaks the RDMA of the machine in one way after the other, and sees that the
// program finds out, and that the command that it gives mends it. Runs in a
// guest of tests/vm only, as root.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"
#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Ran;

// For links to come up on an emulated processor.
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string program;

Ran Shell(const std::string& text) {
  return testing_support::RunToEnd({"/bin/bash", "-c", text});
}

void Do(const std::string& text) {
  const Ran ran = Shell(text);
  EXPECT_EQ(ran.exit_code, 0) << text << ": " << ran.output << ran.errors;
}

// The boot loader's line of a guest names the folder that it shares.
bool IsGuest() {
  std::ifstream file("/proc/cmdline");
  return absl::StrContains(
      std::string(std::istreambuf_iterator<char>(file), {}), "vm_share=");
}

class BrokenMachineTest : public testing::Test {
 protected:
  void SetUp() override {
    // The guest shows the files of its host, which may be a container.
    std::filesystem::remove("/.dockerenv");
    address_ =
        Shell("ip -o -4 address show dev net0 | awk '{print $4}'").output;
    const Report report = Look();
    ASSERT_EQ(report.errors(), 0) << report.DebugString();
  }

  // Runs the program in a shell that has run `before`.
  Report Look(const std::string& before = "", bool calls = false) {
    const Ran ran = Shell(absl::StrCat(
        before, program, " --json --device=rxe0 --timeout=30s --count=5 ",
        calls ? "" : "--noself_test"));
    Report report;
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(ran.output, &report);
    EXPECT_TRUE(parsed.ok()) << ran.output << ran.errors;
    EXPECT_EQ(ran.exit_code, report.errors() > 0 ? 1 : 0);
    return report;
  }

  // Returns the first error. Expects that there is one, and that the check
  // `check` has found it.
  Finding ErrorOf(const Report& report, const std::string& check) {
    for (const Finding& finding : report.findings()) {
      if (finding.level() != Finding::error) continue;
      EXPECT_EQ(finding.check(), check) << finding.DebugString();
      return finding;
    }
    ADD_FAILURE() << "no error: " << report.DebugString();
    return {};
  }

  // Expects that the machine works again, without errors and with calls. Waits,
  // because the kernel may take time to notice a repair.
  void ExpectWell() {
    const absl::Time end = absl::Now() + kPatience;
    Report report = Look();
    while (report.errors() > 0 && absl::Now() < end) report = Look();
    EXPECT_EQ(report.errors(), 0) << report.DebugString();
    report = Look("", /*calls=*/true);
    EXPECT_EQ(report.errors(), 0) << report.DebugString();
    EXPECT_EQ(report.measurements_size(), 1);
  }

  std::string address_;
};

TEST_F(BrokenMachineTest, AWholeOneIsWell) { ExpectWell(); }

TEST_F(BrokenMachineTest, PortDown) {
  Do("ip link set net0 down");
  const Finding finding = ErrorOf(Look(), "ports");
  EXPECT_EQ(finding.mend(), "ip link set net0 up");
  EXPECT_EQ(ErrorOf(Look("", /*calls=*/true), "ports").check(), "ports");
  Do(finding.mend());
  ExpectWell();
}

// A connection ends while the interface is down. The message about its end does
// not leave, and from then on rxe receives none of the connection manager.
TEST_F(BrokenMachineTest, PortWasDown) {
  const std::string address = address_.substr(0, address_.find('/'));
  // The first end to send notices, and says so to the other.
  Do(absl::StrCat("exec >/dev/null 2>&1; timeout 60 rping -s -a ", address,
                  " & sleep 2; timeout 60 rping -c -C 1000000 -a ", address,
                  " & until rdma resource show qp | grep 'type RC state RTS'; "
                  "do sleep 0.1; done; sleep 1; ip link set net0 down; "
                  "wait -n; kill $(jobs -p); sleep 1; ip link set net0 up"));
  EXPECT_EQ(Look().errors(), 0);
  const Finding finding = ErrorOf(Look("", /*calls=*/true), "self");
  EXPECT_THAT(finding.mend(),
              StartsWith("rdma link delete rxe0; rdma link add rxe0 type rxe "
                         "netdev net0   #"));
  Do(finding.mend());
  ExpectWell();
}

TEST_F(BrokenMachineTest, NoAddress) {
  Do("ip address flush dev net0");
  const Finding finding = ErrorOf(Look(), "gids");
  EXPECT_THAT(finding.mend(),
              StartsWith("ip address add 10.0.0.1/24 dev net0"));
  Do(finding.mend());
  ExpectWell();
  Do("ip address flush dev net0");
  Do("ip address add dev net0 " + address_);
  ExpectWell();
}

TEST_F(BrokenMachineTest, NoConnectionManager) {
  Do("rmmod rdma_ucm");
  const Finding finding = ErrorOf(Look(), "modules");
  EXPECT_THAT(finding.mend(), StartsWith("modprobe rdma_ucm;"));
  Do(finding.mend());
  ExpectWell();
}

TEST_F(BrokenMachineTest, NoNode) {
  Do("mv /dev/infiniband/uverbs0 /dev/infiniband/kept");
  const Finding finding = ErrorOf(Look(), "nodes");
  EXPECT_THAT(finding.mend(), HasSubstr("udevadm trigger"));
  // A guest has no udevd.
  Do("mv /dev/infiniband/kept /dev/infiniband/uverbs0");
  ExpectWell();
}

TEST_F(BrokenMachineTest, NodeOfAnotherUser) {
  Do("chmod 0600 /dev/infiniband/uverbs0");
  const std::string nobody = "setpriv --reuid=65534 --clear-groups ";
  const Finding finding = ErrorOf(Look(nobody), "nodes");
  EXPECT_THAT(finding.mend(), StartsWith("chmod 0666 /dev/infiniband/uverbs0"));
  Do(finding.mend());
  EXPECT_EQ(Look(nobody).errors(), 0);
}

TEST_F(BrokenMachineTest, LittleLockedMemory) {
  const std::string weak = "setpriv --bounding-set -ipc_lock ";
  const std::string low = "prlimit --memlock=65536:unlimited ";
  const Finding finding = ErrorOf(Look(low + weak), "memlock");
  EXPECT_EQ(finding.mend(), "ulimit -l unlimited");
  // The calls show that this is no empty threat.
  const Report calls = Look(low + weak, /*calls=*/true);
  EXPECT_EQ(calls.errors(), 2) << calls.DebugString();
  EXPECT_EQ(Look("ulimit -l unlimited; " + weak, /*calls=*/true).errors(), 0);
}

TEST_F(BrokenMachineTest, NoDevice) {
  Do("rdma link delete rxe0");
  Do("rmmod rdma_rxe");
  const Finding finding = ErrorOf(Look("VERBENA_DEVICE=rxe0 "), "devices");
  // Without a wish for one it is no error, but worth a note.
  EXPECT_EQ(Look("VERBENA_DEVICE= ").errors(), 0);
  EXPECT_THAT(finding.mend(),
              StartsWith("modprobe rdma_rxe; rdma link add rxe0 type rxe"));
  Do(finding.mend());
  ExpectWell();
}

}  // namespace
}  // namespace verbena::doctor

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "which program?\n");
    return 2;
  }
  if (!verbena::doctor::IsGuest()) {
    std::fprintf(stderr,
                 "it breaks the machine, so it runs in a guest only: "
                 "tests/vm/run -- %s %s\n",
                 argv[0], argv[1]);
    return 2;
  }
  verbena::doctor::program = argv[1];
  return RUN_ALL_TESTS();
}
