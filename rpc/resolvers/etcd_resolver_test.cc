#include "rpc/resolvers/etcd_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "rpc/logging.h"
#include "tests/testing/etcd_cluster.h"
#include "tests/testing/resolved_answers.h"
#include "tests/testing/tcp_relay.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::EtcdCluster;
using testing_support::ResolvedAnswers;
using testing_support::TcpRelay;

// Tries again as soon as may be, so that no test waits for long.
EtcdOptions Eager() {
  return {.request_timeout = absl::Seconds(10),
          .first_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

// Notices a silent end point after a part of a second.
EtcdOptions Watchful() {
  EtcdOptions options = Eager();
  options.request_timeout = absl::Milliseconds(200);
  options.check_interval = absl::Milliseconds(50);
  return options;
}

std::string Server(const std::string& address) {
  return absl::StrCat(R"({"address": ")", address, R"("})");
}

// Waits for the answer `text`.
void Await(ResolvedAnswers& answers, const std::string& text) {
  while (answers.NextText() != text) {
  }
}

// Waits for an error with these words.
void AwaitError(ResolvedAnswers& answers, const std::string& words) {
  for (;;) {
    const auto result = answers.Next();
    if (!result.ok() && absl::StrContains(result.status().message(), words)) {
      return;
    }
  }
}

// Has a cluster for all tests, which use prefixes of their own.
class EtcdResolverTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_.emplace(); }
  static void TearDownTestSuite() { etcd_.reset(); }

  EtcdResolverTest() {
    SetLogSink([this](const LogEntry& entry) {
      const base::MutexLock lock(mutex_);
      log_.push_back(std::string(entry.text));
    });
  }
  ~EtcdResolverTest() override { SetLogSink(nullptr); }

  static std::unique_ptr<Resolver> Follow(
      const std::string& authority, const std::string& prefix,
      ResolvedAnswers& answers, const EtcdOptions& options = Eager()) {
    auto resolver = NewEtcdResolvers(options)->Create(
        *internal::ParseTarget(absl::StrCat("etcd://", authority, "/", prefix)),
        answers.function());
    EXPECT_TRUE(resolver.ok()) << resolver.status();
    return *std::move(resolver);
  }
  static std::unique_ptr<Resolver> Follow(const std::string& prefix,
                                          ResolvedAnswers& answers) {
    return Follow(etcd_->address(), prefix, answers);
  }

  std::vector<std::string> log() {
    const base::MutexLock lock(mutex_);
    return log_;
  }

  static std::optional<EtcdCluster> etcd_;

 private:
  base::Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
};

std::optional<EtcdCluster> EtcdResolverTest::etcd_;

TEST_F(EtcdResolverTest, FindsServersInTheOrderOfTheirKeys) {
  etcd_->Put("find/b", Server("10.0.0.1:7"));
  etcd_->Put("find/a", R"({"address": "10.0.0.2:7", "weight": 3})");
  etcd_->Put("find/c/d", R"({"Op":0,"Addr":"10.0.0.3:7","Metadata":null})");
  etcd_->Put("find2/e", Server("10.0.0.4:7"));
  ResolvedAnswers answers;
  const auto resolver = Follow("find", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.2:7*3 10.0.0.1:7 10.0.0.3:7");
}

TEST_F(EtcdResolverTest, FollowsChanges) {
  etcd_->Put("follow/a", Server("10.0.0.1:7"));
  ResolvedAnswers answers;
  const auto resolver = Follow("follow", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  etcd_->Put("follow/b", Server("10.0.0.2:7"));
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7 10.0.0.2:7");
  etcd_->Put("follow/a", Server("10.0.0.3:7"));
  EXPECT_EQ(answers.NextText(), "10.0.0.3:7 10.0.0.2:7");
  etcd_->Delete("follow/b");
  EXPECT_EQ(answers.NextText(), "10.0.0.3:7");
  etcd_->Delete("follow/a");
  EXPECT_THAT(answers.NextText(), HasSubstr("no server under follow/"));
  etcd_->Put("follow/c", Server("10.0.0.4:7"));
  EXPECT_EQ(answers.NextText(), "10.0.0.4:7");
}

TEST_F(EtcdResolverTest, SaysThatThereIsNoServer) {
  ResolvedAnswers answers;
  const auto resolver = Follow("nobody", answers);
  EXPECT_EQ(answers.NextText(),
            "UNAVAILABLE: etcd has no server under nobody/");
}

TEST_F(EtcdResolverTest, SkipsValuesThatAreWrong) {
  etcd_->Put("wrong/a", "garbage");
  etcd_->Put("wrong/b", Server("10.0.0.1:7"));
  etcd_->Put("wrong/c", R"({"address": "10.0.0.2"})");
  ResolvedAnswers answers;
  const auto resolver = Follow("wrong", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  ASSERT_EQ(log().size(), 2u);
  EXPECT_THAT(log()[0], HasSubstr("wrong/a is no server: not JSON"));
  EXPECT_THAT(log()[1], HasSubstr("wrong/c is no server: address is"));
  // A server whose value becomes wrong is none any more.
  etcd_->Put("wrong/b", "\xff");
  EXPECT_THAT(answers.NextText(), HasSubstr("but a value that is wrong"));
  etcd_->Put("wrong/b", Server("10.0.0.1:7"));
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
}

TEST_F(EtcdResolverTest, TakesAnAddressOnceFromTheKeyThatWasWrittenLast) {
  etcd_->Put("twice/a", Server("10.0.0.1:7"));
  etcd_->Put("twice/b", R"({"address": "10.0.0.1:7", "weight": 2})");
  ResolvedAnswers answers;
  const auto resolver = Follow("twice", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7*2");
  etcd_->Put("twice/a", R"({"address": "10.0.0.1:7", "weight": 3})");
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7*3");
  etcd_->Delete("twice/a");
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7*2");
  // Two keys of one transaction.
  etcd_->PutAll(
      {{"twice/a", Server("10.0.0.1:7")}, {"twice/b", Server("10.0.0.1:7")}});
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
}

TEST_F(EtcdResolverTest, BringsTheServiceConfig) {
  const std::string config =
      R"({"loadBalancingConfig": [{"round_robin": {}}]})";
  etcd_->Put("config/a", Server("10.0.0.1:7"));
  etcd_->Put("config/service_config", config);
  ResolvedAnswers answers;
  const auto resolver = Follow("config", answers);
  EXPECT_EQ(answers.Next()->service_config, config);
  etcd_->Put("config/service_config", "{}");
  EXPECT_EQ(answers.Next()->service_config, "{}");
  etcd_->Delete("config/service_config");
  const auto result = answers.Next();
  EXPECT_EQ(result->service_config, "");
  EXPECT_EQ(result->servers.size(), 1u);
}

TEST_F(EtcdResolverTest, FindsTenThousandServers) {
  EtcdCluster::Pairs pairs;
  for (int i = 0; i < 10'000; ++i) {
    const std::string address =
        absl::StrCat("10.1.", i / 256, ".", i % 256, ":7");
    pairs.emplace_back(absl::StrCat("many/", address), Server(address));
  }
  etcd_->PutAll(pairs);
  ResolvedAnswers answers;
  const auto resolver = Follow("many", answers);
  EXPECT_EQ(answers.Next()->servers.size(), 10'000u);
  etcd_->Delete("many/10.1.0.0:7");
  EXPECT_EQ(answers.Next()->servers.size(), 9'999u);
  // All of them change at once.
  etcd_->PutAll(pairs);
  EXPECT_EQ(answers.Next()->servers.size(), 10'000u);
}

TEST_F(EtcdResolverTest, GoesOnWhenItsConnectionsAreCut) {
  TcpRelay relay(etcd_->address());
  etcd_->Put("cut/a", Server("10.0.0.1:7"));
  ResolvedAnswers answers;
  const auto resolver = Follow(relay.address(), "cut", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  relay.Set(TcpRelay::Mode::kRefuse);
  AwaitError(answers, absl::StrCat("etcd at ", relay.address(), ": "));
  // A change of which the watch could not tell.
  etcd_->Put("cut/b", Server("10.0.0.2:7"));
  relay.Set(TcpRelay::Mode::kPass);
  Await(answers, "10.0.0.1:7 10.0.0.2:7");
}

TEST_F(EtcdResolverTest, ReadsAgainWhatWasCompacted) {
  TcpRelay relay(etcd_->address());
  etcd_->Put("compact/a", Server("10.0.0.1:7"));
  etcd_->Put("compact/b", "garbage");
  ResolvedAnswers answers;
  const auto resolver = Follow(relay.address(), "compact", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  relay.Set(TcpRelay::Mode::kRefuse);
  AwaitError(answers, "the next attempt is in");
  etcd_->Delete("compact/a");
  etcd_->Put("compact/c", Server("10.0.0.2:7"));
  etcd_->Compact();
  relay.Set(TcpRelay::Mode::kPass);
  Await(answers, "10.0.0.2:7");
  // The garbage has not changed.
  EXPECT_EQ(log().size(), 1u);
}

TEST_F(EtcdResolverTest, LeavesAnEndPointThatFallsSilent) {
  TcpRelay first(etcd_->address());
  TcpRelay second(etcd_->address());
  etcd_->Put("silent/a", Server("10.0.0.1:7"));
  ResolvedAnswers answers;
  const auto resolver =
      Follow(absl::StrCat(first.address(), ",", second.address()), "silent",
             answers, Watchful());
  Await(answers, "10.0.0.1:7");
  (first.connections() > 0 ? first : second).Set(TcpRelay::Mode::kSilent);
  etcd_->Put("silent/b", Server("10.0.0.2:7"));
  Await(answers, "10.0.0.1:7 10.0.0.2:7");
  EXPECT_GT(first.connections(), 0);
  EXPECT_GT(second.connections(), 0);
}

TEST_F(EtcdResolverTest, GoesOnWhenTheOnlyEndPointAnswersAgain) {
  TcpRelay relay(etcd_->address());
  relay.Set(TcpRelay::Mode::kSilent);
  etcd_->Put("again/a", Server("10.0.0.1:7"));
  ResolvedAnswers answers;
  const auto resolver = Follow(relay.address(), "again", answers, Watchful());
  AwaitError(answers, "etcd at ");
  relay.Set(TcpRelay::Mode::kPass);
  Await(answers, "10.0.0.1:7");
  // The answer is the same as before, but takes an error back.
  relay.Set(TcpRelay::Mode::kSilent);
  AwaitError(answers, "etcd at ");
  relay.Set(TcpRelay::Mode::kPass);
  Await(answers, "10.0.0.1:7");
}

TEST_F(EtcdResolverTest, TriesAllEndPointsBeforeItComplains) {
  TcpRelay dead(etcd_->address());
  dead.Set(TcpRelay::Mode::kRefuse);
  etcd_->Put("all/a", Server("10.0.0.1:7"));
  for (int i = 0; i < 4; ++i) {
    ResolvedAnswers answers;
    const auto resolver = Follow(
        absl::StrCat(dead.address(), ",", etcd_->address()), "all", answers);
    EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  }
}

TEST_F(EtcdResolverTest, EndsAtOnceWhateverEtcdDoes) {
  TcpRelay silent(etcd_->address());
  silent.Set(TcpRelay::Mode::kSilent);
  const absl::Time start = base::Now();
  for (const std::string& authority :
       {etcd_->address(), silent.address(), std::string("127.0.0.1:1")}) {
    ResolvedAnswers answers;
    Follow(authority, "end", answers).reset();
  }
  EXPECT_LT(base::Now() - start, absl::Seconds(5));
}

TEST_F(EtcdResolverTest, AnswersNobodyAfterItsEnd) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> ended = false;
    auto resolver = NewEtcdResolvers(Eager())->Create(
        *internal::ParseTarget(
            absl::StrCat("etcd://", etcd_->address(), "/ended")),
        [&](const absl::StatusOr<Resolved>&) { EXPECT_FALSE(ended); });
    etcd_->Put("ended/a", Server(absl::StrCat("10.0.0.1:", i + 1)));
    resolver->reset();
    ended = true;
  }
}

TEST_F(EtcdResolverTest, ServesManyChannelsOnOneThread) {
  etcd_->Put("shared/a", Server("10.0.0.1:7"));
  std::vector<std::unique_ptr<ResolvedAnswers>> answers;
  std::vector<std::unique_ptr<Resolver>> resolvers;
  for (int i = 0; i < 50; ++i) {
    answers.push_back(std::make_unique<ResolvedAnswers>());
    resolvers.push_back(Follow("shared", *answers.back()));
  }
  for (auto& each : answers) EXPECT_EQ(each->NextText(), "10.0.0.1:7");
  etcd_->Put("shared/b", Server("10.0.0.2:7"));
  for (auto& each : answers) {
    EXPECT_EQ(each->NextText(), "10.0.0.1:7 10.0.0.2:7");
  }
}

TEST_F(EtcdResolverTest, RefusesSenselessOptionsAndTargets) {
  const auto create = [](const EtcdOptions& options, const std::string& text) {
    return NewEtcdResolvers(options)
        ->Create(*internal::ParseTarget(text),
                 [](const absl::StatusOr<Resolved>&) {})
        .status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(create({}, "etcd:///")));
  EXPECT_TRUE(absl::IsInvalidArgument(create({.end_points = {}}, "etcd:///a")));
  EXPECT_EQ(NewEtcdResolvers()->scheme(), "etcd");
}

// With clusters of their own.

TEST(EtcdResolverClusterTest, WaitsForEtcdToStart) {
  EtcdCluster etcd;
  etcd.Put("late/a", Server("10.0.0.1:7"));
  etcd.Kill(0);
  ResolvedAnswers answers;
  EtcdOptions options = Eager();
  options.end_points = etcd.addresses();
  const auto resolver = NewEtcdResolvers(options)->Create(
      *internal::ParseTarget("etcd:///late"), answers.function());
  AwaitError(answers, absl::StrCat("etcd at ", etcd.address()));
  etcd.Restart(0);
  Await(answers, "10.0.0.1:7");
}

TEST(EtcdResolverClusterTest, ProvesItsUser) {
  EtcdCluster etcd(1, {"--auth-token-ttl=1"});
  etcd.Put("user/a", Server("10.0.0.1:7"));
  EtcdOptions options = Watchful();
  options.end_points = etcd.addresses();
  options.request_timeout = absl::Seconds(10);
  ResolvedAnswers answers;
  const auto target = *internal::ParseTarget("etcd:///user");
  options.user = "root";
  options.password = "secret";
  // As long as authentication is off, everybody may read.
  auto resolver = NewEtcdResolvers(options)->Create(target, answers.function());
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  resolver->reset();
  etcd.RequireUser("root", "secret");
  resolver = NewEtcdResolvers(options)->Create(target, answers.function());
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");

  options.password = "guess";
  ResolvedAnswers refused;
  resolver = NewEtcdResolvers(options)->Create(target, refused.function());
  EXPECT_THAT(refused.NextText(), HasSubstr("authentication failed"));
  options.user = "";
  ResolvedAnswers nobody;
  resolver = NewEtcdResolvers(options)->Create(target, nobody.function());
  EXPECT_THAT(nobody.NextText(), HasSubstr("user name is empty"));
}

TEST(EtcdResolverClusterTest, SpeaksTls) {
  EtcdCluster etcd(1, {}, EtcdCluster::Tls::kOn);
  etcd.Put("tls/a", Server("10.0.0.1:7"));
  EtcdOptions options = Eager();
  options.end_points = {etcd.tls_address()};
  options.tls = {.ca_certificates = etcd.certificate(),
                 .certificate = etcd.certificate(),
                 .private_key = etcd.private_key()};
  const auto target = *internal::ParseTarget("etcd:///tls");
  ResolvedAnswers answers;
  auto resolver = NewEtcdResolvers(options)->Create(target, answers.function());
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  // Without a certificate etcd does not answer.
  options.tls->certificate = options.tls->private_key = "";
  ResolvedAnswers refused;
  resolver = NewEtcdResolvers(options)->Create(target, refused.function());
  EXPECT_FALSE(refused.Next().ok());
}

}  // namespace
}  // namespace verbena
