// The peers that need no gRPC, as the driver runs them.
//
// Arguments: their paths. Honours VERBENA_DEVICE.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/testing/child_process.h"

namespace verbena::peers {
namespace {

using testing::HasSubstr;
using testing_support::Ran;
using testing_support::TestAddress;

std::vector<std::string> peer_paths;

// Runs the peer at `path` for a short time.
Ran Measure(const std::string& path, std::vector<std::string> flags) {
  std::vector<std::string> command = {path, "--warm_up=20ms",
                                      "--duration=100ms",
                                      "--address=" + TestAddress() + ":0"};
  command.insert(command.end(), flags.begin(), flags.end());
  return testing_support::RunToEnd(command);
}

// The fields of the object that is all of `output`.
google::protobuf::Struct Parse(const std::string& output) {
  google::protobuf::Struct parsed;
  const auto status =
      google::protobuf::util::JsonStringToMessage(output, &parsed);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << output;
  return parsed;
}

double Number(const google::protobuf::Struct& object, const std::string& name) {
  const auto found = object.fields().find(name);
  EXPECT_NE(found, object.fields().end()) << name;
  return found == object.fields().end() ? -1 : found->second.number_value();
}

TEST(PeersTest, BothSidesAreMeasured) {
  for (const std::string& path : peer_paths) {
    SCOPED_TRACE(path);
    const Ran ran = Measure(path, {});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    const google::protobuf::Struct parsed = Parse(ran.output);
    EXPECT_GT(Number(parsed, "calls"), 1);
    EXPECT_GT(Number(parsed, "calls_per_s"), 1);
    EXPECT_GT(Number(parsed, "p50_us"), 0);
    EXPECT_GE(Number(parsed, "p99_us"), Number(parsed, "p50_us"));
    EXPECT_GE(Number(parsed, "p999_us"), Number(parsed, "p99_us"));
    EXPECT_GE(Number(parsed, "max_us"), Number(parsed, "p999_us"));
    EXPECT_GT(Number(parsed, "mean_us"), 0);
    EXPECT_LE(Number(parsed, "mean_us"), Number(parsed, "max_us"));
    for (const std::string side : {"client", "server"}) {
      ASSERT_TRUE(parsed.fields().contains(side));
      const google::protobuf::Struct& usage =
          parsed.fields().at(side).struct_value();
      EXPECT_GT(Number(usage, "cpu_us"), 0) << side;
      EXPECT_GE(Number(usage, "voluntary"), 0) << side;
      EXPECT_GE(Number(usage, "involuntary"), 0) << side;
    }
  }
}

TEST(PeersTest, CallersAndChannelsAndTheClock) {
  for (const std::string& path : peer_paths) {
    SCOPED_TRACE(path);
    const Ran ran = Measure(
        path, {"--callers=5", "--channels=2", "--rate=500", "--size=5000"});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    const double calls = Number(Parse(ran.output), "calls");
    EXPECT_GT(calls, 0);
    EXPECT_LE(calls, 55);  // Those of 100 ms, and one more of each caller.
  }
}

// The first peer is Verbena, the second knows calls only.
TEST(PeersTest, EchoesMayBeMessagesOfAStream) {
  for (const std::string kind : {"--kind=bidi", "--kind=server"}) {
    const Ran ran = Measure(peer_paths[0], {"--callers=3", kind});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_GT(Number(Parse(ran.output), "calls"), 1);
    const Ran by_reactors =
        Measure(peer_paths[0], {"--callers=3", "--server=callback", kind});
    ASSERT_EQ(by_reactors.exit_code, 0) << by_reactors.errors;
    EXPECT_GT(Number(Parse(by_reactors.output), "calls"), 1);
    const Ran refused = Measure(peer_paths[1], {kind});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr(kind + ": want some of unary"));
  }
}

TEST(PeersTest, NonsenseIsRefusedInWords) {
  for (const std::string& path : peer_paths) {
    SCOPED_TRACE(path);
    for (const std::string flag :
         {"--server=none", "--callers=0", "--channels=2", "--rate=-1",
          "--size=2000000", "--duration=0s"}) {
      const Ran ran = Measure(path, {flag});
      EXPECT_EQ(ran.exit_code, 2) << flag;
      EXPECT_THAT(ran.errors, HasSubstr(flag.substr(0, flag.find('=') + 1)));
      EXPECT_THAT(ran.errors, HasSubstr(": want "));
    }
    EXPECT_EQ(Measure(path, {"word"}).exit_code, 2);
  }
}

TEST(PeersTest, AServerEndsWithItsClient) {
  for (const std::string& path : peer_paths) {
    SCOPED_TRACE(path);
    testing_support::ChildProcess client({path, "--duration=1h"});
    ASSERT_TRUE(testing_support::HasChild(client.pid()));
    client.Kill();
    // The server holds the other end of it.
    EXPECT_TRUE(client.WaitForEndOfOutput());
  }
}

TEST(PeersTest, AServerThatCannotServeIsAnError) {
  // The socket peer, which is the second, has no address to be wrong.
  const Ran ran = Measure(peer_paths.front(), {"--address=nowhere"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("cannot serve"));
  EXPECT_THAT(ran.errors, HasSubstr("ended before it was listening"));
}

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::peers::peer_paths.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
