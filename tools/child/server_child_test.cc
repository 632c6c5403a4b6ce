#include "tools/child/server_child.h"

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::tools {
namespace {

using testing::HasSubstr;

// Starts a shell that runs `script` in the place of a server.
absl::StatusOr<std::unique_ptr<ServerChild>> StartShell(
    const std::string& script,
    absl::Duration timeout = absl::InfiniteDuration()) {
  return ServerChild::Start({"/bin/sh", "-c", script}, timeout);
}

TEST(ListeningLineTest, ComesBackAsTheAddress) {
  EXPECT_EQ(ListeningLine("[::1]:5", "soft, rxe0"),
            "listening on [::1]:5 via soft, rxe0");
  EXPECT_EQ(*AddressInListeningLine("listening on [::1]:5 via soft, rxe0"),
            "[::1]:5");
}

TEST(ListeningLineTest, AnythingElseIsAnErrorThatQuotesIt) {
  for (const char* line : {"", "hello", "listening on  via soft",
                           "listening on 1.2.3.4:5", " via "}) {
    EXPECT_THAT(AddressInListeningLine(line).status().message(),
                HasSubstr(std::string("\"") + line + "\""));
  }
}

TEST(ServerChildTest, KnowsTheAddressThatTheServerPrints) {
  absl::StatusOr<std::unique_ptr<ServerChild>> process = StartShell(
      "echo listening on 127.0.0.1:7 via soft; exec tail -f /dev/null");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->address(), "127.0.0.1:7");
  const pid_t pid = (*process)->process().pid();
  EXPECT_EQ(kill(pid, 0), 0);
  process->reset();
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ServerChildTest, TalksToTheServer) {
  const absl::StatusOr<std::unique_ptr<ServerChild>> server =
      StartShell("echo listening on a:1 via soft; read word; echo $word back");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->process().Write("there\n"));
  EXPECT_EQ((*server)->process().ReadLine(), "there back");
}

TEST(ServerChildTest, KillsAServerThatDoesNotStop) {
  absl::StatusOr<std::unique_ptr<ServerChild>> process = StartShell(
      "trap '' TERM; echo listening on a:1 via soft; exec tail -f /dev/null");
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->process().pid();
  const absl::Time start = absl::Now();
  process->reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(ServerChildTest, FailsWhenTheServerEndsAtOnce) {
  EXPECT_EQ(StartShell("exit 1").status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ServerChild::Start({"/nowhere"}, absl::Seconds(10)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(ServerChildTest, FailsWhenTheServerSaysSomethingElse) {
  EXPECT_THAT(StartShell("echo hello").status().message(),
              HasSubstr("the server said \"hello\""));
}

TEST(ServerChildTest, FailsWhenTheServerIsSilent) {
  EXPECT_EQ(StartShell("exec tail -f /dev/null", absl::Milliseconds(50))
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace verbena::tools
