// examples/route_guide as a user runs it: two processes.
//
// Arguments: the paths of its server and its client. Honours VERBENA_DEVICE and
// VERBENA_TEST_ADDRESS.

#include <csignal>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::ChildProcess;
using testing_support::Ran;
using testing_support::RunToEnd;
using testing_support::TestAddress;
using testing_support::WordAfter;

std::string server_path;
std::string client_path;

class RouteGuideTest : public testing::Test {
 protected:
  RouteGuideTest()
      : server_({server_path, "--listen=" + TestAddress() + ":0"}),
        target_(WordAfter("listening on ", server_.ReadLine())) {
    EXPECT_THAT(target_, StartsWith(TestAddress() + ":")) << server_.errors();
  }

  Ran RunClient() { return RunToEnd({client_path, "--target=" + target_}); }
  int StopServer() {
    server_.Signal(SIGTERM);
    return server_.Wait();
  }

  ChildProcess server_;
  const std::string target_;
};

// Of two callers each finds the notes that the other has left.
TEST_F(RouteGuideTest, AClientCallsEachKindOfMethod) {
  constexpr char kAllButNotes[] =
      "there is Eiffel Tower\n"
      "there is nothing\n"
      "in the rectangle is Eiffel Tower\n"
      "in the rectangle is Brandenburg Gate\n"
      "in the rectangle is Charles Bridge\n"
      "in the rectangle is Neuschwanstein\n"
      "passed 9 points and 8 places in 5363 km\n";
  const Ran first = RunClient();
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.output, std::string(kAllButNotes) +
                              "somebody left \"first\"\n"
                              "somebody left \"first\"\n"
                              "somebody left \"second\"\n");
  const Ran second = RunClient();
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, StartsWith(std::string(kAllButNotes) +
                                        "somebody left \"first\"\n"
                                        "somebody left \"second\"\n"
                                        "somebody left \"third\"\n"));
  EXPECT_THAT(second.output, EndsWith("somebody left \"second\"\n"));
  EXPECT_EQ(StopServer(), 0) << server_.errors();
}

TEST_F(RouteGuideTest, WithoutAServerTheClientSaysSo) {
  EXPECT_EQ(StopServer(), 0);
  const Ran client = RunClient();
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("lost the way: UNAVAILABLE"));
}

}  // namespace
}  // namespace verbena

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SERVER CLIENT\n", argv[0]);
    return 2;
  }
  verbena::server_path = argv[1];
  verbena::client_path = argv[2];
  return RUN_ALL_TESTS();
}
