#include "rpc/resolvers/etcd_registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "rpc/resolvers/etcd_resolver.h"
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

constexpr absl::Duration kPatience = absl::Minutes(1);

EtcdOptions OptionsOf(const std::string& end_point) {
  return {.end_points = {end_point},
          .first_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

// Waits for the answer `text`.
void Await(ResolvedAnswers& answers, const std::string& text) {
  while (answers.NextText() != text) {
  }
}

// Keeps the statuses of a registration for a test that waits for them.
class Statuses {
 public:
  std::function<void(const absl::Status&)> function() {
    return [this](const absl::Status& status) {
      const base::MutexLock lock(mutex_);
      statuses_.push_back(status);
      changed_.NotifyAll();
    };
  }
  absl::Status Next() {
    const base::MutexLock lock(mutex_);
    while (statuses_.empty()) changed_.Wait(mutex_);
    absl::Status status = statuses_.front();
    statuses_.pop_front();
    return status;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
};

// Has a cluster for all tests, which use prefixes of their own.
class EtcdRegistrationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_.emplace(); }
  static void TearDownTestSuite() { etcd_.reset(); }

  // The service is registered when this returns.
  static std::unique_ptr<EtcdRegistration> Register(
      const EtcdAnnouncement& announcement,
      const EtcdOptions& options = OptionsOf(etcd_->address())) {
    auto registration = EtcdRegistration::Start(announcement, options);
    EXPECT_TRUE(registration.ok()) << registration.status();
    EXPECT_EQ((*registration)->Await(kPatience), absl::OkStatus());
    return *std::move(registration);
  }

  static std::unique_ptr<Resolver> Follow(const std::string& prefix,
                                          ResolvedAnswers& answers) {
    auto resolver =
        NewEtcdResolvers(OptionsOf(etcd_->address()))
            ->Create(*internal::ParseTarget(absl::StrCat("etcd:///", prefix)),
                     answers.function());
    EXPECT_TRUE(resolver.ok()) << resolver.status();
    return *std::move(resolver);
  }

  static std::optional<EtcdCluster> etcd_;
};

std::optional<EtcdCluster> EtcdRegistrationTest::etcd_;

TEST_F(EtcdRegistrationTest, AnnouncesAServer) {
  const auto registration =
      Register({.prefix = "all",
                .addresses = {"10.0.0.1:7", "[fd00::1]:7"},
                .weight = 2,
                .locality = {.region = "eu", .zone = "a", .sub_zone = "r7"},
                .version = "41",
                .metadata = {{"release", "blue"}}});
  ResolvedAnswers answers;
  const auto resolver = Follow("all", answers);
  const auto resolved = answers.Next();
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ASSERT_EQ(resolved->servers.size(), 2u);
  EXPECT_EQ(
      resolved->servers[0],
      (ServerAddress{.address = "10.0.0.1:7",
                     .weight = 2,
                     .locality = {"eu", "a", "r7"},
                     .attributes = {{"release", "blue"}, {"version", "41"}}}));
  EXPECT_EQ(resolved->servers[1].address, "[fd00::1]:7");
}

TEST_F(EtcdRegistrationTest, EndsWithTheObject) {
  const EtcdAnnouncement announcement = {.prefix = "end",
                                         .addresses = {"10.0.0.1:7"}};
  auto registration = Register(announcement);
  EXPECT_NE(etcd_->Get("end/10.0.0.1:7"), "");
  registration = nullptr;
  EXPECT_EQ(etcd_->Get("end/10.0.0.1:7"), "");
}

TEST_F(EtcdRegistrationTest, EndsWithItsWithdrawal) {
  Statuses statuses;
  const auto registration = Register({.prefix = "withdraw",
                                      .addresses = {"10.0.0.1:7"},
                                      .on_status = statuses.function()});
  EXPECT_EQ(statuses.Next(), absl::OkStatus());
  ResolvedAnswers answers;
  const auto resolver = Follow("withdraw", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  EXPECT_EQ(registration->Withdraw(), absl::OkStatus());
  EXPECT_EQ(etcd_->Get("withdraw/10.0.0.1:7"), "");
  EXPECT_THAT(answers.NextText(), HasSubstr("no server"));
  EXPECT_TRUE(absl::IsCancelled(registration->status()));
  EXPECT_TRUE(absl::IsCancelled(statuses.Next()));
  EXPECT_EQ(registration->Withdraw(), absl::OkStatus());
}

TEST_F(EtcdRegistrationTest, LeavesTheKeyToTheNextProcess) {
  const EtcdAnnouncement announcement = {.prefix = "next",
                                         .addresses = {"10.0.0.1:7"}};
  auto old = Register(announcement);
  const auto next = Register(announcement);
  old = nullptr;
  EXPECT_NE(etcd_->Get("next/10.0.0.1:7"), "");
}

TEST_F(EtcdRegistrationTest, RenewsItsLease) {
  const auto registration = Register({.prefix = "renew",
                                      .addresses = {"10.0.0.1:7"},
                                      .ttl = absl::Seconds(1)});
  ResolvedAnswers answers;
  const auto resolver = Follow("renew", answers);
  Await(answers, "10.0.0.1:7");
  // The lease of a server that is not renewed runs out, as if its process had
  // died: until then that of the other one was renewed.
  TcpRelay relay(etcd_->address());
  const auto dead = Register(
      {.prefix = "renew", .addresses = {"10.0.0.2:7"}, .ttl = absl::Seconds(2)},
      OptionsOf(relay.address()));
  Await(answers, "10.0.0.1:7 10.0.0.2:7");
  relay.Set(TcpRelay::Mode::kRefuse);
  Await(answers, "10.0.0.1:7");
  EXPECT_TRUE(absl::IsUnavailable(dead->status()));
}

TEST_F(EtcdRegistrationTest, RegistersAgainWhenItsLeaseIsLost) {
  const auto registration = Register({.prefix = "again",
                                      .addresses = {"10.0.0.1:7"},
                                      .ttl = absl::Seconds(1)});
  ResolvedAnswers answers;
  const auto resolver = Follow("again", answers);
  Await(answers, "10.0.0.1:7");
  etcd_->RevokeLeases();
  EXPECT_THAT(answers.NextText(), HasSubstr("no server"));
  Await(answers, "10.0.0.1:7");
  EXPECT_EQ(registration->Await(kPatience), absl::OkStatus());
}

TEST_F(EtcdRegistrationTest, SaysThatEtcdIsAway) {
  TcpRelay relay(etcd_->address());
  Statuses statuses;
  const auto registration = Register({.prefix = "away",
                                      .addresses = {"10.0.0.1:7"},
                                      .ttl = absl::Seconds(1),
                                      .on_status = statuses.function()},
                                     OptionsOf(relay.address()));
  EXPECT_EQ(statuses.Next(), absl::OkStatus());
  relay.Set(TcpRelay::Mode::kRefuse);
  EXPECT_THAT(statuses.Next().message(),
              HasSubstr(absl::StrCat("etcd at ", relay.address())));
  relay.Set(TcpRelay::Mode::kPass);
  while (!statuses.Next().ok()) {
  }
  EXPECT_NE(etcd_->Get("away/10.0.0.1:7"), "");
}

TEST_F(EtcdRegistrationTest, StartsAndEndsWithoutEtcd) {
  const absl::Time start = base::Now();
  for (int i = 0; i < 10; ++i) {
    auto registration = EtcdRegistration::Start(
        {.prefix = "absent", .addresses = {"10.0.0.1:7"}},
        OptionsOf("127.0.0.1:1"));
    ASSERT_TRUE(registration.ok());
    EXPECT_TRUE(
        absl::IsUnavailable((*registration)->Await(absl::Milliseconds(5))));
    EXPECT_EQ((*registration)->Withdraw(), absl::OkStatus());
  }
  EXPECT_LT(base::Now() - start, absl::Seconds(10));
}

TEST_F(EtcdRegistrationTest, WaitsForAWithdrawalNoLongerThanItMay) {
  TcpRelay relay(etcd_->address());
  EtcdOptions options = OptionsOf(relay.address());
  options.request_timeout = absl::Milliseconds(100);
  auto registration =
      Register({.prefix = "silent", .addresses = {"10.0.0.1:7"}}, options);
  relay.Set(TcpRelay::Mode::kSilent);
  const absl::Time start = base::Now();
  const absl::Status status = registration->Withdraw(absl::Milliseconds(10));
  EXPECT_THAT(status.message(), HasSubstr("it stays for 10s at most"));
  registration = nullptr;
  EXPECT_LT(base::Now() - start, absl::Seconds(5));
}

TEST_F(EtcdRegistrationTest, IsWithdrawnAtAnotherEndPointIfItsOwnIsSilent) {
  TcpRelay first(etcd_->address());
  TcpRelay second(etcd_->address());
  EtcdOptions options = OptionsOf(first.address());
  options.end_points.push_back(second.address());
  const auto registration =
      Register({.prefix = "other", .addresses = {"10.0.0.1:7"}}, options);
  (first.connections() > 0 ? first : second).Set(TcpRelay::Mode::kSilent);
  EXPECT_EQ(registration->Withdraw(kPatience), absl::OkStatus());
  EXPECT_EQ(etcd_->Get("other/10.0.0.1:7"), "");
}

TEST_F(EtcdRegistrationTest, RefusesSenselessAnnouncements) {
  const auto fault = [](const EtcdAnnouncement& announcement) {
    const absl::Status status = EtcdRegistration::Start(announcement).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const EtcdAnnouncement good = {.prefix = "a", .addresses = {"b:1"}};
  EtcdAnnouncement bad = good;
  bad.prefix = "a/";
  EXPECT_THAT(fault(bad), HasSubstr("prefix must be as services/orders"));
  bad = good;
  bad.addresses = {};
  EXPECT_THAT(fault(bad), HasSubstr("addresses must have 1 to 100"));
  bad = good;
  bad.addresses = {"b"};
  EXPECT_THAT(fault(bad), HasSubstr("address is \"b\""));
  bad = good;
  bad.weight = 0;
  EXPECT_THAT(fault(bad), HasSubstr("weight is 0"));
  bad = good;
  bad.ttl = absl::Milliseconds(1500);
  EXPECT_THAT(fault(bad), HasSubstr("ttl must be whole seconds"));
}

}  // namespace
}  // namespace verbena
