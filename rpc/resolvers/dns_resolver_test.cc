#include "rpc/resolvers/dns_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "tests/testing/dns_server.h"
#include "tests/testing/resolved_answers.h"
#include "transport/base/gate.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::Dnsmasq;
using testing_support::ResolvedAnswers;

// Looks as often as may be, so that no test waits for long.
DnsOptions Eager() {
  return {.min_interval = absl::Milliseconds(1),
          .first_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

// Looks once, and then only if it is asked to.
DnsOptions Rare() { return {.min_interval = absl::Hours(1)}; }

std::unique_ptr<Resolver> Follow(ResolverFactory& factory,
                                 const std::string& target,
                                 ResolvedAnswers& answers) {
  auto resolver =
      factory.Create(*internal::ParseTarget(target), answers.function());
  EXPECT_TRUE(resolver.ok()) << resolver.status();
  return *std::move(resolver);
}

// Returns the first result of a look for `name` at `dnsmasq`.
std::string FirstText(const Dnsmasq& dnsmasq, const std::string& name) {
  ResolvedAnswers answers;
  const auto resolver =
      Follow(*NewDnsResolvers(Rare()),
             absl::StrCat("dns://", dnsmasq.address(), "/", name), answers);
  return answers.NextText();
}

// Waits for the answer `text`, and asks for looks all the time.
void AwaitByWishes(Resolver& resolver, ResolvedAnswers& answers,
                   const std::string& text) {
  do {
    resolver.ResolveNow();
  } while (answers.NextText() != text);
}

TEST(DnsResolverTest, FindsAddressesOfIpv4) {
  const Dnsmasq dnsmasq({"--host-record=a.example,10.0.0.1"});
  EXPECT_EQ(FirstText(dnsmasq, "a.example:7"), "10.0.0.1:7");
}

TEST(DnsResolverTest, FindsAddressesOfIpv6) {
  const Dnsmasq dnsmasq({"--host-record=a.example,fd00::1"});
  EXPECT_EQ(FirstText(dnsmasq, "a.example:7"), "[fd00::1]:7");
}

TEST(DnsResolverTest, FindsAllAddressesOfAName) {
  const Dnsmasq dnsmasq({"--host-record=a.example,10.0.0.1,fd00::1"},
                        "10.0.0.2 a.example\n");
  EXPECT_THAT(
      FirstText(dnsmasq, "a.example:7"),
      testing::AllOf(HasSubstr("10.0.0.1:7"), HasSubstr("[fd00::1]:7")));
}

TEST(DnsResolverTest, FollowsACanonicalName) {
  const Dnsmasq dnsmasq(
      {"--host-record=a.example,10.0.0.1", "--cname=b.example,a.example"});
  EXPECT_EQ(FirstText(dnsmasq, "b.example:7"), "10.0.0.1:7");
}

TEST(DnsResolverTest, TakesAddressesAsTheyAre) {
  const Dnsmasq dnsmasq({});
  EXPECT_EQ(FirstText(dnsmasq, "10.0.0.1:7"), "10.0.0.1:7");
  EXPECT_EQ(FirstText(dnsmasq, "[fd00::1]:7"), "[fd00::1]:7");
}

TEST(DnsResolverTest, ReadsTheHostsFileOfTheHost) {
  ResolvedAnswers answers;
  const auto resolver =
      Follow(*NewDnsResolvers(Rare()), "dns:///localhost:7", answers);
  EXPECT_THAT(answers.NextText(), HasSubstr("127.0.0.1:7"));
}

TEST(DnsResolverTest, SeesAChangeWhenTheTtlHasPassed) {
  Dnsmasq dnsmasq({"--local-ttl=1"}, "10.0.0.1 a.example\n");
  ResolvedAnswers answers;
  const auto resolver = Follow(
      *NewDnsResolvers(Eager()),
      absl::StrCat("dns://", dnsmasq.address(), "/a.example:7"), answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  dnsmasq.RewriteHosts("10.0.0.2 a.example\n");
  std::string text;
  do {
    text = answers.NextText();
  } while (text == "10.0.0.1:7");
  EXPECT_EQ(text, "10.0.0.2:7");
}

TEST(DnsResolverTest, SeesAChangeWhenItIsAskedToLook) {
  Dnsmasq dnsmasq({"--local-ttl=36000"}, "10.0.0.1 a.example\n");
  ResolvedAnswers answers;
  const auto resolver = Follow(
      *NewDnsResolvers(Eager()),
      absl::StrCat("dns://", dnsmasq.address(), "/a.example:7"), answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  dnsmasq.RewriteHosts("10.0.0.2 a.example\n");
  resolver->ResolveNow();
  EXPECT_EQ(answers.NextText(), "10.0.0.2:7");
}

TEST(DnsResolverTest, TellsOfANameThatIsGone) {
  Dnsmasq dnsmasq({"--local=/example/"}, "10.0.0.1 a.example\n");
  ResolvedAnswers answers;
  const auto resolver = Follow(
      *NewDnsResolvers(Eager()),
      absl::StrCat("dns://", dnsmasq.address(), "/a.example:7"), answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  dnsmasq.RewriteHosts("");
  std::string text;
  do {
    text = answers.NextText();
  } while (text == "10.0.0.1:7");
  EXPECT_THAT(text, HasSubstr("NXDOMAIN"));
  dnsmasq.RewriteHosts("10.0.0.3 a.example\n");
  // Nobody asks for the look after a pause.
  do {
    text = answers.NextText();
  } while (text != "10.0.0.3:7");
}

TEST(DnsResolverTest, SaysThatThereIsNoSuchName) {
  const Dnsmasq dnsmasq({"--local=/example/"});
  EXPECT_THAT(FirstText(dnsmasq, "b.example:7"),
              testing::MatchesRegex(absl::StrCat(
                  "UNAVAILABLE: cannot look up b.example .A and AAAA. at ",
                  dnsmasq.address(),
                  ": there is no such name: NXDOMAIN, Domain name not "
                  "found; the next attempt is in .*")));
}

TEST(DnsResolverTest, SaysThatANameHasNoAddresses) {
  const Dnsmasq dnsmasq({"--local=/example/", "--txt-record=c.example,text"});
  EXPECT_THAT(FirstText(dnsmasq, "c.example:7"),
              HasSubstr("the name has no addresses: DNS server returned answer "
                        "with no data"));
}

TEST(DnsResolverTest, SaysThatTheDnsServerRefuses) {
  const Dnsmasq dnsmasq({});
  EXPECT_THAT(FirstText(dnsmasq, "a.elsewhere:7"),
              HasSubstr("DNS server refused query"));
}

TEST(DnsResolverTest, FindsSrvRecordsOfTheLowestPriority) {
  const Dnsmasq dnsmasq({"--host-record=a.example,10.0.0.1",
                         "--host-record=b.example,10.0.0.2",
                         "--host-record=c.example,10.0.0.3",
                         "--srv-host=_o._tcp.example,a.example,71,10,5",
                         "--srv-host=_o._tcp.example,b.example,72,10,0",
                         "--srv-host=_o._tcp.example,c.example,73,20,5"});
  EXPECT_THAT(
      FirstText(dnsmasq, "_o._tcp.example"),
      testing::AnyOf("10.0.0.1:71*5 10.0.0.2:72", "10.0.0.2:72 10.0.0.1:71*5"));
}

TEST(DnsResolverTest, SaysThatThereAreNoSrvRecords) {
  const Dnsmasq dnsmasq(
      {"--local=/example/", "--txt-record=_c._tcp.example,text"});
  EXPECT_THAT(FirstText(dnsmasq, "_b._tcp.example"),
              testing::AllOf(HasSubstr("_b._tcp.example (SRV)"),
                             HasSubstr("NXDOMAIN")));
  EXPECT_THAT(FirstText(dnsmasq, "_c._tcp.example"),
              HasSubstr("has no SRV records"));
}

TEST(DnsResolverTest, FollowsManyNamesWithOneFactory) {
  constexpr int kNames = 400;
  std::string hosts;
  for (int i = 0; i < kNames; ++i) {
    absl::StrAppend(&hosts, "10.0.", i / 250, ".", i % 250, " h", i,
                    ".example\n");
  }
  Dnsmasq dnsmasq({"--local-ttl=36000"}, hosts);
  const auto factory = NewDnsResolvers(Eager());
  std::vector<ResolvedAnswers> answers(kNames);
  std::vector<std::unique_ptr<Resolver>> resolvers;
  resolvers.reserve(kNames);
  for (int i = 0; i < kNames; ++i) {
    resolvers.push_back(
        Follow(*factory,
               absl::StrCat("dns://", dnsmasq.address(), "/h", i, ".example:7"),
               answers[i]));
  }
  for (int i = 0; i < kNames; ++i) {
    EXPECT_EQ(answers[i].NextText(),
              absl::StrCat("10.0.", i / 250, ".", i % 250, ":7"));
  }
  // Half of them leave; the others go on.
  for (int i = 0; i < kNames; i += 2) resolvers[i] = nullptr;
  dnsmasq.RewriteHosts("10.1.1.1 h399.example\n");
  AwaitByWishes(*resolvers[399], answers[399], "10.1.1.1:7");
}

TEST(DnsResolverTest, OutlivesItsFactory) {
  const Dnsmasq dnsmasq({"--host-record=a.example,10.0.0.1"});
  ResolvedAnswers answers;
  auto factory = NewDnsResolvers(Eager());
  const auto resolver = Follow(
      *factory, absl::StrCat("dns://", dnsmasq.address(), "/a.example:7"),
      answers);
  factory = nullptr;
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  AwaitByWishes(*resolver, answers, "10.0.0.1:7");
}

TEST(DnsResolverTest, WaitsInItsDestructorForACallThatRuns) {
  const Dnsmasq dnsmasq({"--host-record=a.example,10.0.0.1"});
  base::Gate called;
  bool returned = false;  // The destructor orders the two threads.
  auto resolver = NewDnsResolvers(Rare())->Create(
      *internal::ParseTarget(
          absl::StrCat("dns://", dnsmasq.address(), "/a.example:7")),
      [&](const absl::StatusOr<Resolved>&) {
        called.Open();
        for (int i = 0; i < 1000; ++i) sched_yield();
        returned = true;
      });
  ASSERT_TRUE(resolver.ok());
  called.Wait();
  *resolver = nullptr;
  EXPECT_TRUE(returned);
}

TEST(DnsResolverTest, RefusesSenselessOptions) {
  const auto status = [](const DnsOptions& options) {
    return NewDnsResolvers(options)
        ->Create(*internal::ParseTarget("dns:///localhost:7"),
                 [](const auto&) {})
        .status();
  };
  const absl::Duration ms = absl::Milliseconds(1);
  const absl::Duration day = absl::Hours(24);
  for (const DnsOptions& good :
       {DnsOptions{.min_interval = ms}, DnsOptions{.min_interval = day},
        DnsOptions{.timeout = 24 * ms}, DnsOptions{.timeout = absl::Hours(1)},
        DnsOptions{.first_backoff = ms}, DnsOptions{.backoff_factor = 1},
        DnsOptions{.first_backoff = day, .max_backoff = day}}) {
    EXPECT_EQ(status(good), absl::OkStatus());
  }
  for (const DnsOptions& bad :
       {DnsOptions{.min_interval = absl::ZeroDuration()},
        DnsOptions{.min_interval = day + ms}, DnsOptions{.timeout = 23 * ms},
        DnsOptions{.timeout = absl::Hours(1) + ms},
        DnsOptions{.first_backoff = absl::ZeroDuration()},
        DnsOptions{.backoff_factor = 0.9},
        DnsOptions{.max_backoff = absl::Milliseconds(999)},
        DnsOptions{.max_backoff = day + ms}}) {
    EXPECT_EQ(status(bad).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(status({.min_interval = -ms}).message(),
              HasSubstr("DnsOptions::min_interval is -1ms; it must be between "
                        "1ms and 24h"));
}

TEST(DnsResolverTest, RefusesTargetsWithoutAPort) {
  EXPECT_EQ(NewDnsResolvers()
                ->Create(*internal::ParseTarget("dns:///a.example"),
                         [](const auto&) {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace verbena
