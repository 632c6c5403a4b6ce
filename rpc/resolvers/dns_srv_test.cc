// SRV records whose targets are many, alike, absent or out of reach.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "rpc/logging.h"
#include "rpc/resolvers/dns_resolver.h"
#include "tests/testing/dns_server.h"
#include "tests/testing/resolved_answers.h"
#include "transport/base/mutex.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::DnsQuery;
using testing_support::DnsReply;
using testing_support::DnsServer;
using testing_support::kDnsA;
using testing_support::kDnsSrv;
using testing_support::ResolvedAnswers;

using Packets = std::vector<std::string>;

// Serves "_o._tcp.example", and hosts named "h1" with the address 10.0.0.1, and
// so on. Keeps the warnings of the log.
class DnsSrvTest : public testing::Test {
 protected:
  DnsSrvTest() {
    SetLogSink([this](const LogEntry& entry) {
      const base::MutexLock lock(mutex_);
      absl::StrAppend(&log_, entry.text, "\n");
    });
  }
  ~DnsSrvTest() override { SetLogSink(nullptr); }

  // Has the server answer with these SRV records.
  void Serve(std::function<void(DnsReply&)> records) {
    const base::MutexLock lock(mutex_);
    records_ = std::move(records);
  }
  // Makes the questions for the addresses of `name` fail.
  void Break(const std::string& name) {
    const base::MutexLock lock(mutex_);
    broken_.insert(name);
  }
  void Mend() {
    const base::MutexLock lock(mutex_);
    broken_.clear();
  }

  void Follow(const DnsOptions& options = {}) {
    auto resolver = NewDnsResolvers(options)->Create(
        *internal::ParseTarget(
            absl::StrCat("dns://", server_.address(), "/_o._tcp.example")),
        answers_.function());
    ASSERT_TRUE(resolver.ok()) << resolver.status();
    resolver_ = *std::move(resolver);
  }

  std::string Log() {
    const base::MutexLock lock(mutex_);
    return log_;
  }

  ResolvedAnswers answers_;

 private:
  Packets Answer(const DnsQuery& query) {
    const base::MutexLock lock(mutex_);
    DnsReply reply(query);
    if (query.type == kDnsSrv) {
      records_(reply);
    } else if (broken_.contains(query.name)) {
      reply.Code(2);  // SERVFAIL.
    } else if (absl::StartsWith(query.name, "many")) {
      AnswerMany(query, reply);
    } else if (!absl::StartsWith(query.name, "h")) {
      reply.Code(3);  // NXDOMAIN.
    } else if (query.type == kDnsA) {
      reply.A(static_cast<uint32_t>(std::stoi(query.name.substr(1))));
    }
    // More than that c-ares does not take by UDP.
    if (!query.tcp && reply.Bytes().size() > 512) {
      return {DnsReply(query).Truncated().Bytes()};
    }
    return {reply.Bytes()};
  }

  // "many1" has 4,000 addresses, and "many2" 4,000 others.
  static void AnswerMany(const DnsQuery& query, DnsReply& reply) {
    const auto first =
        static_cast<uint32_t>(std::stoi(query.name.substr(4))) * 4000;
    for (uint32_t i = 0; query.type == kDnsA && i < 4000; ++i) {
      reply.A(first + i);
    }
  }

  base::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::function<void(DnsReply&)> records_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<std::string> broken_ ABSL_GUARDED_BY(mutex_);
  DnsServer server_{[this](const DnsQuery& query) { return Answer(query); }};
  std::unique_ptr<Resolver> resolver_;
};

// Looks as often as may be.
DnsOptions Eager() {
  return {.min_interval = absl::Milliseconds(1),
          .first_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

TEST_F(DnsSrvTest, HaveTheOrderAndTheWeightsOfTheAnswer) {
  Serve([](DnsReply& reply) {
    reply.Srv(1, 3, 71, "h1").Srv(2, 9, 79, "h9").Srv(1, 0, 72, "h2");
  });
  Follow();
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:71*3 10.0.0.2:72");
}

TEST_F(DnsSrvTest, AddUpTheWeightsOfOneServer) {
  Serve([](DnsReply& reply) {
    reply.Srv(1, 3, 7, "h1").Srv(1, 4, 7, "h1").Srv(1, 5, 8, "h1");
  });
  Follow();
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:7*7 10.0.0.1:8*5");
}

TEST_F(DnsSrvTest, LeaveOutTargetsThatDoNotExist) {
  Serve(
      [](DnsReply& reply) { reply.Srv(1, 1, 7, "nobody").Srv(1, 1, 7, "h1"); });
  Follow();
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:7");
}

TEST_F(DnsSrvTest, SayThatNoTargetExists) {
  Serve([](DnsReply& reply) { reply.Srv(1, 1, 7, "nobody"); });
  Follow();
  EXPECT_THAT(answers_.NextText(),
              testing::AllOf(HasSubstr("_o._tcp.example (SRV)"),
                             HasSubstr("its SRV target nobody"),
                             HasSubstr("NXDOMAIN")));
}

TEST_F(DnsSrvTest, SayThatTheServiceIsNotOffered) {
  Serve([](DnsReply& reply) { reply.Srv(0, 0, 0, ""); });
  Follow();
  EXPECT_THAT(answers_.NextText(), HasSubstr("the service is not offered"));
}

TEST_F(DnsSrvTest, KeepTheAddressesOfATargetWhoseLookFails) {
  Serve([](DnsReply& reply) {
    reply.Srv(1, 1, 7, "h1", /*ttl=*/0).Srv(1, 1, 7, "h2", /*ttl=*/0);
  });
  Follow(Eager());
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:7 10.0.0.2:7");
  Break("h1");
  while (Log().empty()) {
    EXPECT_EQ(answers_.NextText(), "10.0.0.1:7 10.0.0.2:7");
  }
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:7 10.0.0.2:7");
}

TEST_F(DnsSrvTest, LeaveOutATargetWhoseFirstLookFails) {
  Serve([](DnsReply& reply) { reply.Srv(1, 1, 7, "h1").Srv(1, 1, 7, "h2"); });
  Break("h1");
  Follow(Eager());
  EXPECT_EQ(answers_.NextText(), "10.0.0.2:7");
  EXPECT_THAT(Log(), HasSubstr("1 of 2 SRV targets of _o._tcp.example could "
                               "not be looked up, among them h1"));
  // Although the TTL is a minute, the next look comes at once.
  Mend();
  std::string text;
  do {
    text = answers_.NextText();
  } while (text == "10.0.0.2:7");
  EXPECT_EQ(text, "10.0.0.1:7 10.0.0.2:7");
}

TEST_F(DnsSrvTest, AreSeenWhenTheyChange) {
  Serve([](DnsReply& reply) { reply.Srv(1, 1, 7, "h1", /*ttl=*/0); });
  Follow(Eager());
  EXPECT_EQ(answers_.NextText(), "10.0.0.1:7");
  Serve([](DnsReply& reply) { reply.Srv(1, 1, 7, "h2", /*ttl=*/0); });
  std::string text;
  do {
    text = answers_.NextText();
  } while (text == "10.0.0.1:7");
  EXPECT_EQ(text, "10.0.0.2:7");
}

TEST_F(DnsSrvTest, AreLookedUpWhateverTheirNumber) {
  Serve([](DnsReply& reply) {
    for (int i = 1; i <= 200; ++i) reply.Srv(1, 1, 7, absl::StrCat("h", i));
  });
  Follow();
  const auto result = answers_.Next();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->servers.size(), 200);
  EXPECT_EQ(result->servers[199].address, "10.0.0.200:7");
}

TEST_F(DnsSrvTest, AreCutIfTheyHaveTooManyAddresses) {
  Serve([](DnsReply& reply) {
    for (int i = 1; i <= 40; ++i) reply.Srv(1, 1, 7, absl::StrCat("many", i));
  });
  Follow();
  const auto result = answers_.Next();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->servers.size(), kMaxDnsServers);
  EXPECT_THAT(Log(), HasSubstr("_o._tcp.example has more than 10000 servers"));
}

TEST_F(DnsSrvTest, AreCutIfTheyHaveTooManyPorts) {
  Serve([](DnsReply& reply) {
    for (uint16_t i = 1; i <= 40; ++i) reply.Srv(1, 1, i, "many1");
  });
  Follow();
  const auto result = answers_.Next();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->servers.size(), kMaxDnsServers);
  EXPECT_THAT(Log(), HasSubstr("has more than 10000 servers"));
}

}  // namespace
}  // namespace verbena
