// examples/fleet.

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::Ran;

constexpr char kClient[] = "fleet/client";
constexpr char kServer[] = "fleet/server";

class FleetTest : public testing::Test {
 protected:
  static std::unique_ptr<ExampleServer> NewServer(const std::string& name) {
    return std::make_unique<ExampleServer>(
        kServer, std::vector<std::string>{"--name=" + name, "--work=0"});
  }
  // Lists the servers as one that replaces the list does.
  void List(const std::vector<std::string>& targets) {
    std::ofstream(path_ + ".new")
        << R"({"servers": [")" << absl::StrJoin(targets, R"(", ")")
        << R"("], "serviceConfig": {"loadBalancingConfig": [
            {"round_robin": {}}]}})";
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  Ran RunClient() {
    return testing_support::RunToEnd(
        {ExamplePath(kClient), "--target=file://" + path_, "--time=1s"});
  }

  const std::string path_ = testing::TempDir() + "/fleet.json";
};

TEST_F(FleetTest, AllServersOfTheListDoTasks) {
  const auto a = NewServer("a");
  const auto b = NewServer("b");
  List({a->target(), b->target()});
  const Ran client = RunClient();
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_THAT(client.output, HasSubstr("\na "));
  EXPECT_THAT(client.output, HasSubstr("\nb "));
  EXPECT_THAT(client.output, HasSubstr(" 0 failed"));
}

TEST_F(FleetTest, AServerThatIsGoneDoesNone) {
  auto a = NewServer("a");
  const auto b = NewServer("b");
  List({a->target(), b->target()});
  a.reset();
  const Ran client = RunClient();
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_THAT(client.output, Not(HasSubstr("\na ")));
  EXPECT_THAT(client.output, HasSubstr("\nb "));
}

}  // namespace
}  // namespace verbena
