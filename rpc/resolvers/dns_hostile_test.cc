// A DNS server that is down, or answers what none should.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "rpc/resolvers/dns_resolver.h"
#include "tests/testing/dns_server.h"
#include "tests/testing/resolved_answers.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::DnsQuery;
using testing_support::DnsReply;
using testing_support::DnsServer;
using testing_support::DnsSockets;
using testing_support::kDnsA;
using testing_support::ResolvedAnswers;

using Packets = std::vector<std::string>;

// Fails soon, and tries again soon.
DnsOptions Impatient() {
  return {.min_interval = absl::Milliseconds(1),
          .timeout = absl::Milliseconds(100),
          .first_backoff = absl::Milliseconds(1),
          .max_backoff = absl::Milliseconds(10)};
}

// Waits for longer than any test runs.
DnsOptions Patient() {
  return {.min_interval = absl::Hours(1),
          .timeout = absl::Hours(1),
          .first_backoff = absl::Hours(1),
          .max_backoff = absl::Hours(1)};
}

std::unique_ptr<Resolver> Follow(ResolverFactory& factory,
                                 const std::string& server,
                                 const std::string& name,
                                 ResolvedAnswers& answers) {
  auto resolver = factory.Create(
      *internal::ParseTarget(absl::StrCat("dns://", server, "/", name)),
      answers.function());
  EXPECT_TRUE(resolver.ok()) << resolver.status();
  return *std::move(resolver);
}

// Returns the first result of a look for "a.example:7" at a server that answers
// so.
std::string FirstText(DnsServer::Answer answer,
                      const DnsOptions& options = Patient()) {
  const DnsServer server(std::move(answer));
  ResolvedAnswers answers;
  const auto resolver = Follow(*NewDnsResolvers(options), server.address(),
                               "a.example:7", answers);
  return answers.NextText();
}

// The answer to `query`: 10.0.0.1 and no address of IPv6.
std::string Good(const DnsQuery& query) {
  DnsReply reply(query);
  if (query.type == kDnsA) reply.A(1);
  return reply.Bytes();
}

TEST(DnsHostileTest, SaysThatNobodyAnswers) {
  EXPECT_THAT(FirstText([](const DnsQuery&) { return Packets(); }, Impatient()),
              testing::AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("a.example"),
                             HasSubstr("127.0.0.1:"),
                             HasSubstr("Timeout while contacting DNS servers"),
                             HasSubstr("the next attempt is in ")));
}

TEST(DnsHostileTest, SaysThatTheDnsServerIsDown) {
  // The sockets are closed again.
  const std::string nobody = DnsSockets().address.ToString();
  ResolvedAnswers answers;
  const auto resolver =
      Follow(*NewDnsResolvers(Impatient()), nobody, "a.example:7", answers);
  // The system tells c-ares only of some questions that nobody got them.
  EXPECT_THAT(answers.NextText(),
              testing::AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(nobody),
                             HasSubstr("contact"), HasSubstr("DNS servers")));
  // Further attempts follow.
  EXPECT_THAT(answers.NextText(), HasSubstr(nobody));
  EXPECT_THAT(answers.NextText(), HasSubstr(nobody));
}

TEST(DnsHostileTest, AsksAgainIfAQuestionIsLost) {
  int lost = 0;
  EXPECT_EQ(FirstText(
                [&lost](const DnsQuery& query) {
                  return lost++ < 2 ? Packets() : Packets{Good(query)};
                },
                {.timeout = absl::Seconds(20)}),
            "10.0.0.1:7");
}

TEST(DnsHostileTest, FindsIpv4AlthoughNobodyAnswersForIpv6) {
  EXPECT_EQ(FirstText(
                [](const DnsQuery& query) {
                  return query.type == kDnsA ? Packets{Good(query)} : Packets();
                },
                {.timeout = absl::Seconds(6)}),
            "10.0.0.1:7");
}

TEST(DnsHostileTest, IgnoresAnswersWithAWrongId) {
  EXPECT_EQ(
      FirstText([](const DnsQuery& query) {
        return Packets{DnsReply(query).A(66).WrongId().Bytes(), Good(query)};
      }),
      "10.0.0.1:7");
}

TEST(DnsHostileTest, IgnoresAnswersToAnotherQuestion) {
  EXPECT_EQ(FirstText([](const DnsQuery& query) {
              DnsQuery other = query;
              other.name = "evil.example";
              return Packets{DnsReply(other).A(66).Bytes(), Good(query)};
            }),
            "10.0.0.1:7");
}

TEST(DnsHostileTest, IgnoresPacketsThatAreTooShort) {
  EXPECT_EQ(FirstText([](const DnsQuery& query) {
              return Packets{"", "x", Good(query).substr(0, 11), Good(query)};
            }),
            "10.0.0.1:7");
}

TEST(DnsHostileTest, SurvivesAnswersThatAreCutAnywhere) {
  const auto answer = [](size_t cut) {
    return [cut](const DnsQuery& query) {
      const std::string whole = Good(query);
      return Packets{whole.substr(0, whole.size() - cut)};
    };
  };
  for (size_t cut = 1; cut < 30; ++cut) {
    EXPECT_THAT(FirstText(answer(cut), Impatient()), HasSubstr("UNAVAILABLE"))
        << cut;
  }
}

TEST(DnsHostileTest, SurvivesGarbageBehindARightHeader) {
  unsigned seed = 1;
  const auto answer = [&seed](const DnsQuery& query) {
    std::string packet = DnsReply(query).A(1).A(2).Bytes();
    // All behind the question, or the header, or the id.
    size_t from = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 12 : 31;
    for (; from < packet.size(); ++from) {
      seed = seed * 1103515245 + 12345;
      packet[from] = static_cast<char>(seed >> 16);
    }
    return Packets{packet};
  };
  const DnsServer server(answer);
  ResolvedAnswers answers;
  DnsOptions options = Impatient();
  options.timeout = absl::Milliseconds(24);
  const auto resolver = Follow(*NewDnsResolvers(options), server.address(),
                               "a.example:7", answers);
  for (int i = 0; i < 50; ++i) EXPECT_NE(answers.NextText(), "10.0.0.1:7");
}

TEST(DnsHostileTest, AsksByTcpIfAnAnswerIsTooLong) {
  const std::string text = FirstText([](const DnsQuery& query) {
    DnsReply reply(query);
    if (!query.tcp) return Packets{reply.Truncated().Bytes()};
    for (int i = 1; query.type == kDnsA && i <= 100; ++i) reply.A(i);
    return Packets{reply.Bytes()};
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 99) << text;
  EXPECT_THAT(text, HasSubstr("10.0.0.100:7"));
}

TEST(DnsHostileTest, GivesUpIfTcpGivesNothing) {
  EXPECT_THAT(FirstText(
                  [](const DnsQuery& query) {
                    return query.tcp
                               ? Packets()
                               : Packets{DnsReply(query).Truncated().Bytes()};
                  },
                  Impatient()),
              HasSubstr("UNAVAILABLE"));
}

TEST(DnsHostileTest, NamesEachAddressOnce) {
  EXPECT_EQ(FirstText([](const DnsQuery& query) {
              DnsReply reply(query);
              if (query.type == kDnsA) reply.A(1).A(1).A(1);
              return Packets{reply.Bytes()};
            }),
            "10.0.0.1:7");
}

TEST(DnsHostileTest, AsksOnlyAsOftenAsTheIntervalAllows) {
  const DnsServer server(
      [](const DnsQuery& query) { return Packets{Good(query)}; });
  const auto factory = NewDnsResolvers(Patient());
  ResolvedAnswers answers;
  const auto resolver =
      Follow(*factory, server.address(), "a.example:7", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  for (int i = 0; i < 1000; ++i) resolver->ResolveNow();
  // After the look for another name the thread has seen the wishes.
  const auto other = Follow(*factory, server.address(), "b.example:7", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  EXPECT_EQ(server.queries("a.example"), 2);  // A and AAAA.
}

TEST(DnsHostileTest, DoesNotShortenAPauseForWishes) {
  const DnsServer server([](const DnsQuery& query) {
    return Packets{query.name == "a.example" ? DnsReply(query).Code(2).Bytes()
                                             : Good(query)};
  });
  DnsOptions options = Patient();
  options.min_interval = absl::Milliseconds(1);
  const auto factory = NewDnsResolvers(options);
  ResolvedAnswers answers;
  const auto resolver =
      Follow(*factory, server.address(), "a.example:7", answers);
  EXPECT_THAT(answers.NextText(),
              HasSubstr("DNS server returned general failure"));
  for (int i = 0; i < 1000; ++i) resolver->ResolveNow();
  const auto other = Follow(*factory, server.address(), "b.example:7", answers);
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
  EXPECT_EQ(server.queries("a.example"), 2);
}

TEST(DnsHostileTest, IsDestroyedWhileALookIsUnderWay) {
  const DnsServer silent([](const DnsQuery&) { return Packets(); });
  ResolvedAnswers answers;
  auto resolver = Follow(*NewDnsResolvers(Patient()), silent.address(),
                         "a.example:7", answers);
  silent.AwaitQueries("a.example", 1);
  resolver = nullptr;  // Would wait for most of an hour if it waited.
  EXPECT_EQ(answers.size(), 0);
}

TEST(DnsHostileTest, IsDestroyedWhileSrvTargetsAreLookedUp) {
  const DnsServer server([](const DnsQuery& query) {
    if (query.type != testing_support::kDnsSrv) return Packets();
    return Packets{DnsReply(query)
                       .Srv(1, 1, 1, "a.example")
                       .Srv(1, 1, 1, "b.example")
                       .Bytes()};
  });
  ResolvedAnswers answers;
  auto resolver = Follow(*NewDnsResolvers(Patient()), server.address(),
                         "_o._tcp.example", answers);
  server.AwaitQueries("a.example", 1);
  server.AwaitQueries("b.example", 1);
  resolver = nullptr;
  EXPECT_EQ(answers.size(), 0);
}

TEST(DnsHostileTest, DestroysManyWhileOneIsSilent) {
  const DnsServer server([](const DnsQuery& query) {
    return query.name == "good.example" ? Packets{Good(query)} : Packets();
  });
  const auto factory = NewDnsResolvers(Patient());
  ResolvedAnswers answers;
  std::vector<std::unique_ptr<Resolver>> silent;
  silent.reserve(600);
  // More than may look at one time.
  for (int i = 0; i < 600; ++i) {
    silent.push_back(Follow(*factory, server.address(),
                            absl::StrCat("s", i, ".example:7"), answers));
  }
  const auto good =
      Follow(*factory, server.address(), "good.example:7", answers);
  silent.clear();
  EXPECT_EQ(answers.NextText(), "10.0.0.1:7");
}

}  // namespace
}  // namespace verbena
