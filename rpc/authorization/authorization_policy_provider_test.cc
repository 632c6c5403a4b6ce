#include "rpc/authorization/authorization_policy_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/internal/call/server_call_state.h"
#include "rpc/logging.h"
#include "rpc/server_context.h"
#include "transport/base/auth_context.h"
#include "transport/base/mutex.h"

namespace verbena {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A call of one method by one client.
class FakeCall final : public internal::ServerCallState {
 public:
  explicit FakeCall(std::string method) : method_(std::move(method)) {
    auto client = std::make_shared<transport::AuthContext>();
    client->AddProperty("key_name", "november");
    client->SetPeerIdentityPropertyName("key_name");
    client_ = std::move(client);
    data().client_metadata.emplace("tier", "gold");
  }

  bool IsCancelled() const override { return false; }
  std::stop_token stop_token() override { return {}; }
  void SendInitialMetadata() override {}
  ServerUnaryReactor* DefaultReactor() override { return nullptr; }
  const std::string& method() const override { return method_; }
  const std::string& peer() const override { return peer_; }
  const std::string& device() const override { return device_; }
  std::shared_ptr<const transport::AuthContext> auth_context() const override {
    return client_;
  }
  Buffer AllocateBuffer(size_t /*bytes*/) const override { return Buffer(); }

 private:
  const std::string method_;
  const std::string peer_ = "10.0.0.7:41234";
  const std::string device_ = "soft";
  std::shared_ptr<const transport::AuthContext> client_;
};

absl::Status Authorize(AuthorizationPolicyProviderInterface& provider,
                       const std::string& method) {
  FakeCall call(method);
  return provider.Authorize(ServerContext(&call));
}

const absl::Status& Denied() {
  static const auto* const kDenied = new absl::Status(
      absl::PermissionDeniedError("Unauthorized RPC request rejected."));
  return *kDenied;
}

// Allows the methods of one service.
std::string PolicyFor(const std::string& service) {
  return absl::StrCat(
      R"({"name": "p", "allow_rules": [{"name": "r", "request": {"paths": ["/)",
      service, "/*\"]}}]}");
}

// Keeps what is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    SetLogSink(
        [this](const LogEntry& entry) {
          const base::MutexLock lock(mutex_);
          lines_.push_back(absl::StrCat(
              entry.severity == LogSeverity::kInfo ? "info: " : "warning: ",
              entry.text));
        },
        LogSeverity::kInfo);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { SetLogSink(nullptr); }

  std::vector<std::string> lines() {
    const base::MutexLock lock(mutex_);
    return lines_;
  }

 private:
  base::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST(StaticDataAuthorizationPolicyProviderTest, DecidesByItsPolicy) {
  CapturedLog log;
  const auto provider = StaticDataAuthorizationPolicyProvider::Create(R"({
      "name": "p",
      "deny_rules": [{"name": "no", "request": {"paths": ["*/Erase"]}}],
      "allow_rules": [{"name": "yes",
        "source": {"principals": ["november"]},
        "request": {"paths": ["/shop.Orders/*"],
                    "headers": [{"key": "tier", "values": ["gold"]}]}}]})");
  ASSERT_TRUE(provider.ok()) << provider.status();
  EXPECT_EQ(Authorize(**provider, "shop.Orders/Find"), absl::OkStatus());
  EXPECT_THAT(log.lines(), IsEmpty());
  EXPECT_EQ(Authorize(**provider, "shop.Orders/Erase"), Denied());
  EXPECT_EQ(Authorize(**provider, "shop.Tills/Open"), Denied());
  EXPECT_THAT(
      log.lines(),
      ElementsAre("warning: denied a call of /shop.Orders/Erase by "
                  "\"november\" at 10.0.0.7:41234: the deny rule \"no\" of the "
                  "policy \"p\" matches",
                  "warning: denied a call of /shop.Tills/Open by \"november\" "
                  "at 10.0.0.7:41234: no allow rule of the policy \"p\" "
                  "matches"));
}

TEST(StaticDataAuthorizationPolicyProviderTest, IsNotMadeOfABadPolicy) {
  EXPECT_EQ(StaticDataAuthorizationPolicyProvider::Create("{}").status(),
            absl::InvalidArgumentError("the policy has no \"name\""));
}

// A file with a policy, and what a provider says of it.
class FileWatcherTest : public testing::Test {
 protected:
  using Provider = FileWatcherAuthorizationPolicyProvider;

  FileWatcherTest() : path_(testing::TempDir() + "/policy.json") {
    std::remove(path_.c_str());
  }
  ~FileWatcherTest() override { std::remove(path_.c_str()); }

  // Puts a file with that text in the place of the last one.
  void Write(const std::string& text) {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  // Watches the file, by default only when it is told to.
  void Watch(absl::Duration interval = absl::InfiniteDuration()) {
    auto provider = Provider::Create(
        path_, interval, [this](const absl::Status& status) { Keep(status); });
    ASSERT_TRUE(provider.ok()) << provider.status();
    provider_ = *std::move(provider);
  }
  absl::Status Call(const std::string& method) {
    return Authorize(*provider_, method);
  }

  // Returns what on_reload was told so far.
  std::vector<std::string> reports() {
    const base::MutexLock lock(mutex_);
    return reports_;
  }
  // Waits until on_reload is told for the nth time; returns what.
  std::string AwaitReport(size_t n) {
    const base::MutexLock lock(mutex_);
    while (reports_.size() < n) changed_.Wait(mutex_);
    return reports_[n - 1];
  }

  const std::string path_;
  std::shared_ptr<Provider> provider_;

 private:
  void Keep(const absl::Status& status) {
    const base::MutexLock lock(mutex_);
    reports_.push_back(status.ToString());
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FileWatcherTest, NeedsAFileAPolicyAndAnInterval) {
  const auto error = [this](absl::Duration interval) {
    return Provider::Create(path_, interval).status();
  };
  EXPECT_EQ(error(absl::Seconds(1)).code(), absl::StatusCode::kUnavailable);
  Write("{");
  EXPECT_EQ(error(absl::Seconds(1)).code(), absl::StatusCode::kInvalidArgument);
  Write(R"({"name": "p", "allow_rules": []})");
  EXPECT_EQ(
      error(absl::Seconds(1)),
      absl::InvalidArgumentError(absl::StrCat(
          path_, ": allow_rules is [], but must be a list that is not empty")));
  Write(PolicyFor("a.B"));
  EXPECT_EQ(error(absl::ZeroDuration()),
            absl::InvalidArgumentError(
                "the refresh interval of an authorization policy is 0, must be "
                "positive"));
  EXPECT_EQ(error(absl::Seconds(1)), absl::OkStatus());
}

TEST_F(FileWatcherTest, AReloadTakesTheNewPolicy) {
  CapturedLog log;
  Write(PolicyFor("a.B"));
  Watch();
  EXPECT_EQ(Call("a.B/C"), absl::OkStatus());
  EXPECT_EQ(Call("d.E/F"), Denied());
  Write(PolicyFor("d.E"));
  EXPECT_EQ(Call("a.B/C"), absl::OkStatus());
  EXPECT_EQ(provider_->Reload(), absl::OkStatus());
  EXPECT_EQ(Call("a.B/C"), Denied());
  EXPECT_EQ(Call("d.E/F"), absl::OkStatus());
  EXPECT_THAT(reports(), ElementsAre("OK"));
  EXPECT_THAT(log.lines(), testing::Contains(absl::StrCat(
                               "info: the authorization policy in ", path_,
                               " has changed, and is in force")));
}

TEST_F(FileWatcherTest, ABrokenFileLeavesTheLastPolicyInForce) {
  CapturedLog log;
  Write(PolicyFor("a.B"));
  Watch();
  Write(R"({"name": "p", "allow_rules": [{"name": "r", "sauce": {}}]})");
  const absl::Status broken = absl::InvalidArgumentError(absl::StrCat(
      path_,
      ": allow_rules[0] has a field \"sauce\", which is not one of name, "
      "source, request"));
  // The second time the file is as it was, and so is the answer.
  EXPECT_EQ(provider_->Reload(), broken);
  EXPECT_EQ(provider_->Reload(), broken);
  EXPECT_EQ(Call("a.B/C"), absl::OkStatus());
  EXPECT_EQ(Call("d.E/F"), Denied());
  EXPECT_THAT(reports(), ElementsAre(broken.ToString()));
  EXPECT_THAT(log.lines(),
              testing::Contains(absl::StrCat(
                  "warning: the last authorization policy stays in force: ",
                  broken.message())));
  Write(PolicyFor("d.E"));
  EXPECT_EQ(provider_->Reload(), absl::OkStatus());
  EXPECT_EQ(Call("d.E/F"), absl::OkStatus());
  EXPECT_THAT(reports(), ElementsAre(broken.ToString(), "OK"));
}

TEST_F(FileWatcherTest, AFileThatIsGoneLeavesTheLastPolicyInForce) {
  CapturedLog log;
  Write(PolicyFor("a.B"));
  Watch();
  ASSERT_EQ(std::remove(path_.c_str()), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(provider_->Reload().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(Call("a.B/C"), absl::OkStatus());
  Write(PolicyFor("a.B"));
  EXPECT_EQ(provider_->Reload(), absl::OkStatus());
  EXPECT_THAT(reports(), ElementsAre(HasSubstr("cannot read"), "OK"));
}

TEST_F(FileWatcherTest, AFileThatIsTheSameIsNoNews) {
  Write(PolicyFor("a.B"));
  Watch();
  Write(PolicyFor("a.B"));
  EXPECT_EQ(provider_->Reload(), absl::OkStatus());
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(FileWatcherTest, TheThreadReadsTheFileByItself) {
  CapturedLog log;
  Write(PolicyFor("a.B"));
  Watch(absl::Milliseconds(1));
  Write(PolicyFor("d.E"));
  EXPECT_EQ(AwaitReport(1), "OK");
  EXPECT_EQ(Call("d.E/F"), absl::OkStatus());
  EXPECT_EQ(Call("a.B/C"), Denied());
  Write("{}");
  EXPECT_THAT(AwaitReport(2), HasSubstr("the policy has no \"name\""));
  EXPECT_EQ(Call("d.E/F"), absl::OkStatus());
  Write(PolicyFor("a.B"));
  EXPECT_EQ(AwaitReport(3), "OK");
  EXPECT_EQ(Call("a.B/C"), absl::OkStatus());
}

TEST_F(FileWatcherTest, EndsAtOnceThoughTheIntervalIsLong) {
  Write(PolicyFor("a.B"));
  Watch(absl::Hours(1000));
  provider_.reset();
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(FileWatcherTest, CallsGoOnWhileThePolicyChanges) {
  CapturedLog log;
  // Both allow the call, so it is never denied.
  const std::string one = PolicyFor("a.B");
  const std::string other =
      R"({"name": "q", "allow_rules": [{"name": "everything"}]})";
  Write(one);
  Watch(absl::Milliseconds(1));
  std::atomic<bool> stop{false};
  std::atomic<int> denied{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop.load()) {
        if (!Call("a.B/C").ok()) denied.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    Write(i % 2 == 0 ? other : one);
    EXPECT_EQ(provider_->Reload(), absl::OkStatus());
  }
  stop.store(true);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(denied.load(), 0);
}

}  // namespace
}  // namespace verbena
