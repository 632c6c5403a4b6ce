// examples/chain.

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/example_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::Ran;

constexpr char kClient[] = "chain/client";
constexpr char kServer[] = "chain/server";

class ChainTest : public testing::Test {
 protected:
  // Returns the next line of the last server.
  std::string Hear() { return back_.ReadLine(); }

  // Runs a client, and cancels it while the last server works for it.
  void CancelWhatWorks(ExampleServer& front, const std::string& work) {
    ChildProcess client(
        {ExamplePath(kClient), "--target=" + front.target(), "--work=" + work});
    ASSERT_EQ(Hear(), "back: begins, and may take for ever");
    client.Signal(SIGINT);
    EXPECT_EQ(client.Wait(), 1);
    EXPECT_THAT(client.errors(), HasSubstr("not done: CANCELLED"));
  }

  ExampleServer back_{kServer, {"--name=back"}};
  ExampleServer middle_{kServer, {"--name=middle", "--next=" + back_.target()}};
  ExampleServer front_{kServer, {"--name=front", "--next=" + middle_.target()}};
};

TEST_F(ChainTest, AnOrderPassesThroughAllServers) {
  const Ran client = RunExample(kClient, front_.target(), {"--work=1ms"});
  EXPECT_EQ(client.exit_code, 0) << client.errors;
  EXPECT_EQ(client.output, "done by front, middle, back\n");
  EXPECT_EQ(Hear(), "back: begins, and may take for ever");
  EXPECT_EQ(Hear(), "back: is done");
  EXPECT_EQ(front_.Stop(), 0) << front_.errors();
  EXPECT_EQ(middle_.Stop(), 0) << middle_.errors();
  EXPECT_EQ(back_.Stop(), 0) << back_.errors();
}

TEST_F(ChainTest, TheClientsDeadlineBoundsTheLastServer) {
  const Ran client =
      RunExample(kClient, front_.target(), {"--work=1h", "--timeout=2s"});
  EXPECT_EQ(client.exit_code, 1);
  EXPECT_THAT(client.errors, HasSubstr("not done: DEADLINE_EXCEEDED"));
  EXPECT_EQ(Hear(), "back: begins, with a deadline");
  EXPECT_EQ(Hear(), "back: stops, nobody waits for it");
}

TEST_F(ChainTest, AClientThatCancelsIsSeenByTheLastServer) {
  CancelWhatWorks(front_, "1h");
  EXPECT_EQ(Hear(), "back: stops, nobody waits for it");
}

TEST_F(ChainTest, AClientThatIsKilledIsSeenByTheLastServer) {
  ChildProcess client(
      {ExamplePath(kClient), "--target=" + front_.target(), "--work=1h"});
  ASSERT_EQ(Hear(), "back: begins, and may take for ever");
  client.Kill();
  EXPECT_EQ(Hear(), "back: stops, nobody waits for it");
}

TEST_F(ChainTest, AServerMayLetTheNextOneFinish) {
  ExampleServer front(kServer, {"--name=patient", "--let_finish",
                                "--next=" + middle_.target()});
  CancelWhatWorks(front, "500ms");
  EXPECT_EQ(Hear(), "back: is done");
}

}  // namespace
}  // namespace verbena
