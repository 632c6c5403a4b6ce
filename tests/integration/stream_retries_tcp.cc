// The main function of tests whose process reaches itself as another host: by
// the software device over TCP.

#include <gtest/gtest.h>

#include <cstdlib>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/network_of_own.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  verbena::soft::ReachAllPeersByNetwork();
  setenv("VERBENA_DEVICE", "soft", 1);
  setenv("VERBENA_TEST_ADDRESS", verbena::soft::kOwnAddress, 1);
  return RUN_ALL_TESTS();
}
