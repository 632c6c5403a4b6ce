// examples/interceptors.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::Ran;

class InterceptorsExampleTest : public testing::Test {
 protected:
  Ran RunClient(const std::string& token) {
    return RunExample("interceptors/client", server_.target(),
                      {"--token=" + token});
  }

  ExampleServer server_{"interceptors/server", {"--token=sesame"}};
};

TEST_F(InterceptorsExampleTest, WithTheTokenCallsAreServedLoggedAndMeasured) {
  const Ran client = RunClient("sesame");
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_THAT(client.output, HasSubstr("1 2 3 4 "));
  EXPECT_THAT(client.output, HasSubstr("counter.Counter/Double: 5 calls, 0 "));
  EXPECT_THAT(client.output, HasSubstr("counter.Counter/Count: 2 calls, 1 "));
  EXPECT_THAT(client.errors,
              HasSubstr("client: counter.Counter/Count, 1 sent, 32 received: "
                        "OK\n"));
  EXPECT_THAT(client.errors,
              HasSubstr("client: counter.Counter/Count, 1 sent, 0 received: "
                        "INVALID_ARGUMENT: "));
  EXPECT_EQ(server_.Stop(), 0) << server_.errors();
  EXPECT_THAT(server_.errors(),
              HasSubstr("server: counter.Counter/Double from "));
  EXPECT_THAT(server_.errors(), HasSubstr(", 32 sent, 1 received: OK\n"));
  EXPECT_THAT(server_.output(), HasSubstr("counter.Counter/Count: 2 calls, 1"));
}

TEST_F(InterceptorsExampleTest, WithAnotherOneTheyAreRejectedAndCounted) {
  const Ran client = RunClient("guessed");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("no count: UNAUTHENTICATED: the token "
                                       "is not the right one"));
  EXPECT_THAT(client.output, HasSubstr("counter.Counter/Double: 1 calls, 1 "));
  EXPECT_EQ(server_.Stop(), 0) << server_.errors();
  EXPECT_THAT(server_.errors(), HasSubstr("0 received: UNAUTHENTICATED: "));
  EXPECT_THAT(server_.output(), HasSubstr("counter.Counter/Double: 1 calls, "));
}

TEST_F(InterceptorsExampleTest, WithoutAnyTheyAreRejected) {
  const Ran client = RunClient("");
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors,
              HasSubstr("UNAUTHENTICATED: the call brings no token"));
  EXPECT_EQ(server_.Stop(), 0) << server_.errors();
}

}  // namespace
}  // namespace verbena
