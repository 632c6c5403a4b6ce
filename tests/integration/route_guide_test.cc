// examples/route_guide, and examples/generic_proxy before it.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Ran;

constexpr char kClient[] = "route_guide/client";
constexpr char kAllButNotes[] =
    "there is Eiffel Tower\n"
    "there is nothing\n"
    "in the rectangle is Eiffel Tower\n"
    "in the rectangle is Brandenburg Gate\n"
    "in the rectangle is Charles Bridge\n"
    "in the rectangle is Neuschwanstein\n"
    "passed 9 points and 8 places in 5363 km\n";
constexpr char kNotes[] =
    "somebody left \"first\"\n"
    "somebody left \"first\"\n"
    "somebody left \"second\"\n";

// Each client finds the notes that it has left before; the second client also
// finds those of the first.
TEST(RouteGuideTest, AClientCallsEachKindOfMethod) {
  ExampleServer server("route_guide/server");
  const Ran first = RunExample(kClient, server.target());
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.output, std::string(kAllButNotes) + kNotes);
  const Ran second = RunExample(kClient, server.target());
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, StartsWith(std::string(kAllButNotes) +
                                        "somebody left \"first\"\n"
                                        "somebody left \"second\"\n"
                                        "somebody left \"third\"\n"));
  EXPECT_THAT(second.output, EndsWith("somebody left \"second\"\n"));
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(RouteGuideTest, WithoutAServerTheClientSaysSo) {
  ExampleServer server("route_guide/server");
  EXPECT_EQ(server.Stop(), 0);
  const Ran client = RunExample(kClient, server.target());
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("lost the way: UNAVAILABLE"));
}

TEST(GenericProxyTest, AClientCallsEachKindOfMethodThroughTheProxy) {
  ExampleServer server("route_guide/server");
  ExampleServer proxy("generic_proxy/proxy", {"--backend=" + server.target()});
  const Ran client = RunExample(kClient, proxy.target());
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_EQ(client.output, std::string(kAllButNotes) + kNotes);
  EXPECT_EQ(proxy.Stop(), 0) << proxy.errors();
  EXPECT_EQ(server.Stop(), 0) << server.errors();
}

TEST(GenericProxyTest, ABackendThatIsGoneIsWhatTheClientHears) {
  ExampleServer server("route_guide/server");
  ExampleServer proxy("generic_proxy/proxy", {"--backend=" + server.target()});
  EXPECT_EQ(server.Stop(), 0) << server.errors();
  const Ran client = RunExample(kClient, proxy.target());
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("lost the way: UNAVAILABLE"));
  EXPECT_THAT(client.errors, HasSubstr(server.target()));
  EXPECT_EQ(proxy.Stop(), 0) << proxy.errors();
}

}  // namespace
}  // namespace verbena
