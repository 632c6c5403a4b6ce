// examples/coroutines.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::Ran;

constexpr char kServer[] = "coroutines/server";

TEST(WeatherTest, CoroutinesCallOneByOneAndTogether) {
  ExampleServer server(kServer);
  const Ran client = RunExample("coroutines/client", server.target());
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_EQ(client.output,
            "Lisbon has 24 degrees\n"
            "Oslo has 9 degrees\n"
            "Warsaw has 17 degrees\n"
            "Lisbon still has 24\n"
            "Oslo still has 9\n"
            "Warsaw still has 17\n");
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(WeatherTest, OneCityThatNobodyKnowsIsTold) {
  ExampleServer server(kServer);
  const Ran client = RunExample("coroutines/client", server.target(),
                                {"--cities=Oslo,Atlantis"});
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors,
              HasSubstr("no weather: NOT_FOUND: there is no city "
                        "\"Atlantis\""));
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(WeatherTest, AsiosThreadRunsAllOfAProgramsOwnCode) {
  ExampleServer server(kServer);
  const Ran client =
      RunExample("coroutines/asio_client", server.target(), {"--city=Warsaw"});
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_EQ(client.output,
            "Warsaw has 17 (on the loop)\n"
            "Warsaw has 17 (on the loop)\n"
            "Warsaw has 17 (on the loop)\n"
            "back (on the loop)\n");
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(WeatherTest, AsiosLoopEndsWithoutAServer) {
  ExampleServer server(kServer);
  EXPECT_EQ(server.Stop(), 0);
  const Ran client = RunExample("coroutines/asio_client", server.target());
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("no weather: UNAVAILABLE"));
}

}  // namespace
}  // namespace verbena
