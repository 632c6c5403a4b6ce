// Tests of the log entries about connections and refused calls.

#include "rpc/logging.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/authorization/authorization_policy_provider.h"
#include "rpc/credentials/shared_secret.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

// Keeps what is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    SetLogSink(
        [this](const LogEntry& entry) {
          const base::MutexLock lock(mutex_);
          lines_.emplace_back(entry.text);
          changed_.NotifyAll();
        },
        LogSeverity::kInfo);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { SetLogSink(nullptr); }

  // Waits for a line that has all of these; false after two minutes.
  bool Await(const std::vector<std::string>& parts) {
    return AwaitLine(absl::StrJoin(parts, ", "), [&](const std::string& line) {
      return absl::c_all_of(parts, [&](const std::string& part) {
        return absl::StrContains(line, part);
      });
    });
  }
  // As Await(), but for a line that matches `expression` as a whole.
  bool AwaitMatch(const std::string& expression) {
    return AwaitLine(expression, [&](const std::string& line) {
      return testing::Matches(testing::MatchesRegex(expression))(line);
    });
  }

 private:
  bool AwaitLine(const std::string& what,
                 const std::function<bool(const std::string&)>& fits) {
    const absl::Time deadline = base::Now() + absl::Minutes(2);
    const base::MutexLock lock(mutex_);
    while (!absl::c_any_of(lines_, fits)) {
      if (base::Now() >= deadline) {
        ADD_FAILURE() << "no line with " << what << " in:\n"
                      << absl::StrJoin(lines_, "\n");
        return false;
      }
      changed_.WaitUntil(mutex_, deadline);
    }
    return true;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class LoggingTest : public EndToEndTest {};

TEST_F(LoggingTest, BothSidesTellOfAConnectionAndOfItsEnd) {
  CapturedLog log;
  StartServer();
  auto channel = NewChannel();
  ASSERT_EQ(EchoProblem(*EndToEnd::NewStub(channel), 10, 1), "");
  const std::string device = channel->device();
  EXPECT_TRUE(log.Await({"a client connects: ", ", on " + device}));
  EXPECT_TRUE(log.Await({"connected to ", ", on " + device}));
  channel.reset();
  EXPECT_TRUE(log.Await({"closed the connection"}));
}

TEST_F(LoggingTest, AnAttemptThatFailsSaysWhyAndWhenTheNextOneComes) {
  CapturedLog log;
  // Nobody listens at port 1.
  ChannelOptions options;
  options.device = "soft";
  const auto channel = CreateChannel("127.0.0.1:1", options);
  EXPECT_FALSE(channel->WaitForConnected(absl::Now() + absl::Seconds(1)));
  EXPECT_TRUE(
      log.Await({"no connection to 127.0.0.1:1", "the next attempt is in "}));
}

TEST_F(LoggingTest, AServerNamesTheClientThatItRefuses) {
  CapturedLog log;
  auto keys = std::make_shared<SharedSecretKeys>();
  ASSERT_EQ(keys->Replace({{"november", std::string(32, 's')}}),
            absl::OkStatus());
  int port = 0;
  ServerBuilder builder;
  const std::string host = testing_support::TestAddress();
  builder.AddListeningPort(host + ":0", SharedSecretServerCredentials(keys),
                           &port);
  const auto server = builder.BuildAndStart();
  ASSERT_EQ(server.status(), absl::OkStatus());
  const auto channel =
      CreateChannel(absl::StrCat(host, ":", port),
                    SharedSecretCredentials("october", std::string(32, 's')));
  EXPECT_FALSE(channel->WaitForConnected(absl::Now() + absl::Minutes(1)));
  // The client's own entry begins in another way.
  EXPECT_TRUE(log.AwaitMatch(
      absl::StrCat(host, ":[0-9]+: the server does not have the key .*")));
}

TEST_F(LoggingTest, AServerNamesTheCallsThatItsPolicyDenies) {
  CapturedLog log;
  const auto provider = StaticDataAuthorizationPolicyProvider::Create(
      R"({"name": "p", "allow_rules": [{"name": "everything"}],
          "deny_rules": [{"name": "quiet",
                          "request": {"paths": ["*/Echo"]}}]})");
  ASSERT_EQ(provider.status(), absl::OkStatus());
  StartServer([&](ServerBuilder& builder) {
    builder.SetAuthorizationPolicyProvider(*provider);
  });
  EXPECT_NE(EchoProblem(*EndToEnd::NewStub(NewChannel()), 10, 1), "");
  EXPECT_TRUE(log.AwaitMatch(
      "denied a call of /verbena.end_to_end.EndToEnd/Echo by a client without "
      "a name at .*:[0-9]+: the deny rule \"quiet\" of the policy \"p\" "
      "matches"));
}

TEST_F(LoggingTest, AServerSaysThatItRefusesCallsForALimit) {
  CapturedLog log;
  StartServer([](ServerBuilder& builder) { builder.SetMaxConcurrentCalls(1); });
  const auto stub = EndToEnd::NewStub(NewChannel());
  const auto blocked = Block(stub.get(), "key");
  service().AwaitBlocked("key");
  EXPECT_NE(EchoProblem(*stub, 10, 1), "");
  EXPECT_TRUE(log.Await({"calls are refused: ", "has 1 calls in progress",
                         "SetMaxConcurrentCalls"}));
  service().Release("key");
  blocked->thread.join();
}

}  // namespace
}  // namespace verbena::end_to_end
