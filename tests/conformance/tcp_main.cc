// Runs the suite on the software device by the way to other hosts: iWARP over
// TCP, and UDP for datagrams.
//
//   conformance_tcp_test "--netem=delay 2ms 1ms loss 1%"
//
// With --netem the network treats packets as tc-netem(8) has it. That takes the
// kernel module sch_netem.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "transport/base/check.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/network_of_own.h"

namespace {

// Cuts packets to the size that they have on an Ethernet, so that there are
// many of them to treat badly. Ends the process if the kernel cannot do it.
void MakeNetworkBad(absl::string_view netem) {
  const std::string command = absl::StrCat(
      "ip link set lo mtu 1500 gso_max_segs 1 && "
      "tc qdisc add dev lo root netem ",
      netem, " && tc qdisc show dev lo");
  CHECK_EQ(std::system(command.c_str()), 0) << command;
}

// Prints how many packets the network has taken and dropped.
void PrintCounts() {
  std::fflush(stdout);
  CHECK_EQ(std::system("tc -s qdisc show dev lo"), 0);
}

}  // namespace

// The network is the process's own, so its ports are free, whatever else runs.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  absl::string_view netem = argc > 1 ? argv[1] : "";
  if (!absl::ConsumePrefix(&netem, "--netem=")) netem = "";
  if (!netem.empty()) MakeNetworkBad(netem);
  verbena::soft::ReachAllPeersByNetwork();
  setenv("VERBENA_DEVICE", "soft", 1);
  setenv("VERBENA_TEST_ADDRESS", verbena::soft::kOwnAddress, 1);
  const int status = RUN_ALL_TESTS();
  if (!netem.empty()) PrintCounts();
  return status;
}
