// examples/hello.

#include <csignal>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::Ran;
using testing_support::RunToEnd;
using testing_support::WordAfter;

class HelloTest : public testing::Test {
 protected:
  Ran RunClient(const std::string& name) {
    return RunExample("hello/client", server_.target(), {"--name=" + name});
  }

  ExampleServer server_{"hello/server"};
};

TEST_F(HelloTest, AGreetingCrossesTwoProcesses) {
  const Ran client = RunClient("Ada");
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_THAT(client.output,
              HasSubstr("Hello Ada (from " + server_.target() + " via "));
  EXPECT_EQ(server_.Stop(), 0) << server_.errors();
}

TEST_F(HelloTest, TheClientNamesTheDeviceThatWasAskedFor) {
  const std::string devices = WordAfter(" via ", server_.first_line());
  EXPECT_NE(devices, "");
  const Ran client = RunClient("Ada");
  const char* wanted = std::getenv("VERBENA_DEVICE");
  if (wanted != nullptr) {
    EXPECT_THAT(client.output, HasSubstr(std::string("via ") + wanted + ")"));
    EXPECT_THAT(devices, HasSubstr(wanted));
  } else {
    EXPECT_THAT(client.output, HasSubstr(" via "));
  }
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(HelloTest, TheServerServesOneClientAfterAnother) {
  for (const char* name : {"Ada", "Grace", "Barbara"}) {
    EXPECT_THAT(RunClient(name).output,
                HasSubstr(std::string("Hello ") + name));
  }
  EXPECT_EQ(server_.Stop(SIGINT), 0) << server_.errors();
}

TEST_F(HelloTest, AnErrorOfTheHandlerReachesTheClient) {
  const Ran client = RunClient("");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_EQ(client.output, "");
  EXPECT_THAT(client.errors,
              HasSubstr("INVALID_ARGUMENT: whom shall I greet?"));
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(HelloTest, WithoutAServerTheClientSaysSo) {
  EXPECT_EQ(server_.Stop(), 0);
  const Ran client = RunClient("Ada");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("no greeting: UNAVAILABLE"));
}

TEST_F(HelloTest, AnAddressThatIsNoneIsRefused) {
  const Ran server =
      RunToEnd({ExamplePath("hello/server"), "--listen=nowhere"});
  EXPECT_EQ(server.exit_code, 1);
  EXPECT_THAT(server.errors, HasSubstr("cannot serve: INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace verbena
