// Runs the suite on the software device by the way to other hosts: iWARP over
// TCP, and UDP for datagrams.

#include <gtest/gtest.h>

#include <cstdlib>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/network_of_own.h"

// The network is the process's own, so its ports are free, whatever else runs.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  verbena::soft::ReachAllPeersByNetwork();
  setenv("VERBENA_DEVICE", "soft", 1);
  setenv("VERBENA_TEST_ADDRESS", verbena::soft::kOwnAddress, 1);
  return RUN_ALL_TESTS();
}
