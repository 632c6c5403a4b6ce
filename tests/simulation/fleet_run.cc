#include "tests/simulation/fleet_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/call/client_call_state.h"
#include "rpc/metrics.h"
#include "tests/integration/test_service.h"
#include "tests/simulation/fleet_names.h"
#include "transport/soft/soft_faults.h"

namespace verbena::simulation {
namespace {

using end_to_end::Inline;
using end_to_end::Pattern;

// Time after its deadline in which a call must end: a tick of its poller, and
// the callbacks before its own.
constexpr absl::Duration kLate = absl::Milliseconds(5);
// Time in which a server hears that nobody waits for a call any more.
constexpr absl::Duration kHeard = absl::Milliseconds(10);
// Bound of waits that end by the timeouts of connections.
constexpr absl::Duration kPatience = absl::Seconds(30);
// Time after which a channel has noticed what it has lost; with the keepalive
// of connections if peers were silent.
constexpr absl::Duration kNotices = absl::Milliseconds(20);
constexpr absl::Duration kNoticesSilence = absl::Milliseconds(220);
// Calls that each server gets in the end, with round_robin.
constexpr int kCallsEach = 2;

absl::Time DueOf(FleetCall& call) {
  return internal::ClientCallState::Of(call.context).options().deadline();
}

}  // namespace

FleetRun::FleetRun(World* world, const FleetScenario* scenario,
                   const transport::FaultyProvider* faulty)
    : world_(*world),
      scenario_(*scenario),
      faulty_(*faulty),
      begin_(world->Now()),
      handled_{.find = [this](size_t index) { return calls_[index].get(); },
               .on_run = [this](const FleetCall& call) { OnRun(call); }},
      registry_(std::make_shared<FleetRegistry>(
          world, &scenario->channels,
          [this](size_t channel, const AnswerPlan& answer) {
            clients_[channel]->OnTold(answer);
          })) {}

void FleetRun::Begin(const ServerTrouble& trouble) {
  FleetServer& server = *servers_[trouble.server];
  switch (trouble.kind) {
    case ServerTrouble::Kind::kDrain:
      return server.Stop(kDrainTime);
    case ServerTrouble::Kind::kDie:
      return server.Stop(absl::ZeroDuration());
    case ServerTrouble::Kind::kStall:
      return server.Stall();
    case ServerTrouble::Kind::kSick:
      return server.SetMood(FleetServer::Mood::kSick);
    case ServerTrouble::Kind::kHang:
      return server.SetMood(FleetServer::Mood::kHangs);
    case ServerTrouble::Kind::kCut:
      return soft::CutAllLinks();
  }
}

void FleetRun::End(const ServerTrouble& trouble) {
  FleetServer& server = *servers_[trouble.server];
  switch (trouble.kind) {
    case ServerTrouble::Kind::kDrain:
    case ServerTrouble::Kind::kDie:
      return server.Start();
    case ServerTrouble::Kind::kStall:
      return server.Resume();
    case ServerTrouble::Kind::kSick:
    case ServerTrouble::Kind::kHang:
      return server.SetMood(FleetServer::Mood::kWell);
    case ServerTrouble::Kind::kCut:
      return soft::ReleaseAllLinks();
  }
}

void FleetRun::Trace(const FleetCall& call, const std::string& text) {
  absl::StrAppend(&trace_, call.index, " ",
                  absl::ToInt64Nanoseconds(world_.Now() - begin_), " ", text,
                  "\n");
}

FleetCall* FleetRun::StartCall(const FleetCallPlan& plan) {
  const std::shared_ptr<Channel>& channel = clients_[plan.channel]->channel();
  if (channel == nullptr) return nullptr;
  const size_t index = calls_.size();
  FleetCall* const call =
      calls_.emplace_back(std::make_unique<FleetCall>(&plan, index)).get();
  call->start = world_.Now();
  call->context.set_timeout(plan.timeout);
  call->context.set_wait_for_ready(plan.wait_for_ready);
  call->context.AddMetadata(kCallKey, absl::StrCat(index));
  call->context.AddMetadata(kHashKey, plan.key);
  call->request.set_payload(Pattern(plan.bytes, index));
  Inline::NewStub(channel)->async()->Echo(
      &call->context, &call->request, &call->reply,
      [this, call](const absl::Status& status) { OnEnd(call, status); });
  if (plan.cancel < absl::InfiniteDuration()) {
    world_.At(world_.Now() + plan.cancel,
              [call] { call->context.TryCancel(); });
  }
  return call;
}

bool FleetRun::Deaf(size_t server, absl::Time from, absl::Time to) const {
  return servers_[server]->StalledBetween(from, to) ||
         std::any_of(scenario_.troubles.begin(), scenario_.troubles.end(),
                     [](const ServerTrouble& trouble) {
                       return trouble.kind == ServerTrouble::Kind::kCut;
                     });
}

bool FleetRun::KeepsConnections(size_t server) const {
  using Kind = ServerTrouble::Kind;
  return std::all_of(
      scenario_.troubles.begin(), scenario_.troubles.end(),
      [&](const ServerTrouble& trouble) {
        return trouble.kind == Kind::kSick || trouble.kind == Kind::kHang ||
               (trouble.kind != Kind::kCut && trouble.server != server);
      });
}

// The run is the last one of the call.
void FleetRun::OnRun(const FleetCall& call) {
  const HandlerRun& run = call.runs.back();
  const FleetClient& client = *clients_[call.plan->channel];
  const AttemptsPlan& attempts = client.plan().attempts;
  Trace(call, absl::StrCat("at ", run.server, " after \"", run.previous, "\""));
  EXPECT_TRUE(client.MayRun(run.server, call.start))
      << "call " << call.index << " runs at " << run.server
      << ", which had left before";
  EXPECT_LE(call.runs.size(), static_cast<size_t>(attempts.most))
      << "call " << call.index;
  int previous = 0;
  EXPECT_TRUE(run.previous.empty() ||
              absl::SimpleAtoi(run.previous, &previous));
  EXPECT_LT(previous, attempts.most) << "call " << call.index;
  if (attempts.kind != AttemptsPlan::Kind::kRetry) return;
  for (size_t i = 0; i + 1 < call.runs.size(); ++i) {
    const HandlerRun& other = call.runs[i];
    EXPECT_NE(other.previous, run.previous) << "call " << call.index;
    // The client may have given that attempt up, or lost it.
    if (attempts.timeout > absl::ZeroDuration() ||
        !KeepsConnections(other.server)) {
      continue;
    }
    EXPECT_LE(other.end, run.begin) << "call " << call.index << " runs twice";
    EXPECT_FALSE(other.forbids_more) << "call " << call.index;
  }
}

void FleetRun::OnEnd(FleetCall* call, const absl::Status& status) {
  EXPECT_EQ(++call->ends, 1) << "call " << call->index;
  call->end = world_.Now();
  call->status = status;
  Trace(*call, absl::StatusCodeToString(status.code()));
  EXPECT_LE(call->end, DueOf(*call) + kLate) << status;
  ExpectStatus(call);
  if (status.ok()) ExpectReply(*call);
}

void FleetRun::ExpectStatus(FleetCall* call) {
  const FleetCallPlan& plan = *call->plan;
  const FleetChannelPlan& channel = scenario_.channels[plan.channel];
  const absl::Status& status = call->status;
  const std::string what =
      absl::StrCat("call ", call->index, ": ", status.ToString());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      EXPECT_EQ(plan.code, absl::StatusCode::kOk) << what;
      return;
    case absl::StatusCode::kCancelled:
      EXPECT_TRUE(plan.cancel < absl::InfiniteDuration() ||
                  clients_[plan.channel]->channel() == nullptr)
          << what;
      return;
    case absl::StatusCode::kDeadlineExceeded:
      EXPECT_GE(call->end, DueOf(*call)) << what;
      EXPECT_FALSE(scenario_.harmless || calm_) << what;
      return;
    case absl::StatusCode::kUnavailable:
      EXPECT_FALSE(scenario_.harmless || calm_) << what;
      return;
    case absl::StatusCode::kInvalidArgument:
      EXPECT_TRUE(std::any_of(channel.answers.begin(), channel.answers.end(),
                              [](const AnswerPlan& answer) {
                                return answer.kind ==
                                       AnswerPlan::Kind::kInvalid;
                              }))
          << what;
      return;
    default:
      EXPECT_EQ(status.code(), plan.code) << what;
  }
}

void FleetRun::ExpectReply(const FleetCall& call) {
  EXPECT_TRUE(call.reply.payload() == call.request.payload());
  const auto peer = ServerAt(call.context.peer());
  EXPECT_TRUE(std::any_of(call.runs.begin(), call.runs.end(),
                          [&](const HandlerRun& run) {
                            return run.server == peer && run.end <= call.end &&
                                   run.code == absl::StatusCode::kOk;
                          }))
      << "call " << call.index << " has ended well, but not at "
      << call.context.peer();
}

void FleetRun::ExpectHeard(const FleetCall& call) {
  for (const HandlerRun& run : call.runs) {
    const absl::Time heard = std::max(call.end, run.begin) + kHeard;
    EXPECT_TRUE(run.end <= heard || run.cancelled <= heard ||
                Deaf(run.server, run.begin, heard))
        << "the handler of call " << call.index << " at " << run.server
        << " did not hear that the call has ended";
  }
}

bool FleetRun::AllEnded() const {
  return std::all_of(
      calls_.begin(), calls_.end(),
      [](const std::unique_ptr<FleetCall>& call) { return call->ends > 0; });
}

// Returns only pointers to the plans, which outlive the run.
void FleetRun::Schedule() {
  for (size_t i = 0; i < clients_.size(); ++i) {
    const FleetChannelPlan& plan = scenario_.channels[i];
    for (const AnswerPlan& answer : plan.answers) {
      world_.At(begin_ + answer.start,
                [this, i, &answer] { registry_->Answer(i, &answer); });
    }
    if (plan.drop == absl::InfiniteDuration()) continue;
    world_.At(begin_ + plan.drop,
              [this, i] { clients_[i]->Drop([this] { --channels_left_; }); });
  }
  for (const FleetCallPlan& plan : scenario_.calls) {
    world_.At(begin_ + plan.start, [this, &plan] { StartCall(plan); });
  }
  for (const ServerTrouble& trouble : scenario_.troubles) {
    world_.At(begin_ + trouble.start, [this, &trouble] { Begin(trouble); });
    world_.At(begin_ + trouble.start + trouble.length,
              [this, &trouble] { End(trouble); });
  }
}

void FleetRun::Execute() {
  for (size_t i = 0; i < scenario_.servers; ++i) {
    servers_.push_back(
        std::make_unique<FleetServer>(&world_, &faulty_, &handled_, i));
    servers_.back()->Start();
  }
  for (size_t i = 0; i < scenario_.channels.size(); ++i) {
    clients_.push_back(std::make_unique<FleetClient>(&world_, &scenario_, i));
    clients_.back()->Connect(registry_);
    // Before the first call it has an answer that was good.
    if (clients_.back()->plan().steady) {
      clients_.back()->channel()->state(/*try_to_connect=*/true);
    }
    ++channels_left_;
  }
  Schedule();
  absl::Duration end = absl::Milliseconds(1);
  absl::Duration last_due;
  for (const FleetCallPlan& plan : scenario_.calls) {
    end = std::max(end, plan.start);
    last_due = std::max(last_due, plan.start + plan.timeout);
  }
  for (const ServerTrouble& trouble : scenario_.troubles) {
    end = std::max(end, trouble.start + trouble.length);
  }
  for (const FleetChannelPlan& plan : scenario_.channels) {
    end = std::max(end, plan.answers.back().start);
  }
  // Everything has begun by then, and all that was put off.
  world_.RunFor(begin_ + end + absl::Milliseconds(2) - world_.Now());
  EXPECT_TRUE(world_.RunUntil([this] { return AllEnded(); },
                              begin_ + std::max(end, last_due) + kLate));
  ExpectCalm();
  ExpectAllGivenBack();
}

// Looks now and then: a look at all servers of all channels takes long.
void FleetRun::ExpectCalm() {
  using Kind = ServerTrouble::Kind;
  const bool silence = std::any_of(
      scenario_.troubles.begin(), scenario_.troubles.end(),
      [](const ServerTrouble& trouble) {
        return trouble.kind == Kind::kStall || trouble.kind == Kind::kCut;
      });
  world_.RunFor(silence ? kNoticesSilence : kNotices);
  const auto all_ready = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) {
                         return client->channel() == nullptr || client->Ready();
                       });
  };
  const absl::Time latest = world_.Now() + kPatience;
  while (!all_ready() && world_.Now() < latest) {
    world_.RunFor(absl::Milliseconds(5));
  }
  for (const auto& client : clients_) {
    if (client->channel() == nullptr) continue;
    EXPECT_TRUE(client->Ready()) << client->Describe();
  }
  calm_ = true;
  for (const auto& client : clients_) {
    if (client->channel() == nullptr) continue;
    NoteShares(*client);
    CallCalmly(client.get());
  }
  // For hedges that were cancelled a moment ago.
  world_.RunFor(kHeard);
  for (const auto& call : calls_) ExpectHeard(*call);
  for (const auto& server : servers_) {
    for (const MethodMetrics& method : server->server()->Metrics().methods) {
      EXPECT_EQ(method.open(), 0u) << method.name;
    }
  }
}

void FleetRun::CallCalmly(FleetClient* client) {
  const size_t channel =
      std::find_if(clients_.begin(), clients_.end(),
                   [&](const auto& each) { return each.get() == client; }) -
      clients_.begin();
  const size_t count = kCallsEach * client->servers().size();
  client->ExpectIdle();
  std::vector<const FleetCall*> calls;
  for (size_t i = 0; i < count; ++i) {
    FleetCallPlan& plan = calm_plans_.emplace_back();
    plan.channel = channel;
    plan.timeout = kPatience;
    plan.key = absl::StrCat(i % 7);
    calls.push_back(StartCall(plan));
  }
  EXPECT_TRUE(
      world_.RunUntil([this] { return AllEnded(); }, world_.Now() + kPatience));
  ExpectSpread(client, calls);
}

void FleetRun::ExpectSpread(FleetClient* client,
                            const std::vector<const FleetCall*>& calls) {
  const std::map<size_t, uint32_t> servers = client->servers();
  std::map<size_t, int> spread;
  for (const FleetCall* call : calls) {
    std::set<size_t> of_call;
    for (const HandlerRun& run : call->runs) {
      EXPECT_TRUE(servers.contains(run.server)) << run.server;
      ++spread[run.server];
      of_call.insert(run.server);
    }
    if (client->policy() != Policy::kPickFirst) {
      EXPECT_EQ(of_call.size(), std::min(call->runs.size(), servers.size()));
    }
  }
  // Hedges take turns, too, but go to other servers than the key leads to.
  const AttemptsPlan& attempts = client->plan().attempts;
  const bool once = attempts.kind != AttemptsPlan::Kind::kHedge ||
                    attempts.pause > absl::ZeroDuration();
  switch (client->policy()) {
    case Policy::kPickFirst:
      EXPECT_EQ(spread.size(), 1u);
      return;
    case Policy::kRoundRobin:
      EXPECT_EQ(spread.size(), servers.size());
      for (const auto& [server, count] : spread) {
        EXPECT_TRUE(count == kCallsEach || !once) << server;
      }
      return;
    case Policy::kRingHash:
      for (const FleetCall* call : calls) {
        for (const HandlerRun& run : call->runs) {
          if (!run.previous.empty()) continue;
          EXPECT_EQ(rings_[servers]
                        .emplace(call->plan->key, run.server)
                        .first->second,
                    run.server);
        }
      }
      return;
    case Policy::kWeightedRoundRobin:
    case Policy::kLeastRequest:
      return;
  }
}

void FleetRun::NoteShares(const FleetClient& client) {
  const double all = client.listed().size();
  const std::map<size_t, uint32_t> chosen = client.servers();
  if (client.policy() == Policy::kPickFirst || chosen.size() >= all) return;
  const double part = chosen.size() / all;
  for (const size_t server : client.listed()) {
    Share& share = shares_[server];
    share.clients += chosen.contains(server) ? 1 : 0;
    share.expected += part;
    share.variance += part * (1 - part);
  }
}

void FleetRun::ExpectAllGivenBack() {
  for (const auto& client : clients_) {
    client->Drop([this] { --channels_left_; });
  }
  EXPECT_TRUE(world_.RunUntil([this] { return channels_left_ == 0; },
                              world_.Now() + kPatience));
  for (const auto& server : servers_) {
    EXPECT_TRUE(world_.RunUntil(
        [&] { return server->server()->endpoint().connection_count() == 0; },
        world_.Now() + kPatience));
    server->Stop(absl::ZeroDuration());
  }
  // Those of the handlers that have ended early.
  EXPECT_TRUE(world_.RunUntil([this] { return !world_.AnyActions(); },
                              world_.Now() + kPatience));
  EXPECT_EQ(faulty_.objects(), 0u);
}

}  // namespace verbena::simulation
