// Every kind of call, ended in every way at every moment of its life: it ends
// with the right status, and leaves nothing behind. Neither memory of a pool,
// nor a place among the calls that may be open, nor a handler.
//
// The moments within a transfer are drawn, 40 of each or as many as
// VERBENA_TEST_DRAWS says; VERBENA_TEST_SEED repeats a run that failed, as far
// as processors allow.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/cancellation_fixture.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/testing/child_process.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

constexpr std::pair<Kind, const char*> kKinds[] = {
    {Kind::kUnary, "Unary"},
    {Kind::kClient, "Client"},
    {Kind::kServer, "Server"},
    {Kind::kBidi, "Bidi"},
};

constexpr Message kSmall = {"Small", 64, 0};
constexpr Message kSizes[] = {
    kSmall,
    {"Middle", 16 << 10, 0},
    {"Large", 256 << 10, 64 << 10},
};

// The cause that ends the call.
enum class Cause { kTryCancel, kDeadline, kHandler, kChannel };
constexpr std::pair<Cause, const char*> kCauses[] = {
    {Cause::kTryCancel, "TryCancel()"},
    {Cause::kDeadline, "the deadline"},
    {Cause::kHandler, "an error of the handler's"},
    {Cause::kChannel, "the end of the channel"},
};

// The moment at which the cause acts.
enum class Moment { kBefore, kSending, kHandling, kMidway, kReplying, kAfter };
constexpr std::pair<Moment, const char*> kMoments[] = {
    {Moment::kBefore, "before it was started"},
    {Moment::kSending, "while it is being sent"},
    {Moment::kHandling, "while it is handled"},
    {Moment::kMidway, "between two messages"},
    {Moment::kReplying, "while its reply is being sent"},
    {Moment::kAfter, "when it is over"},
};

// Whether `cause` can end a call of this kind at `moment`.
bool MayBe(Kind kind, Cause cause, Moment moment) {
  if (kind == Kind::kUnary && moment == Moment::kMidway) return false;
  switch (cause) {
    case Cause::kTryCancel:
      return true;
    case Cause::kDeadline:
      return moment != Moment::kAfter;
    case Cause::kHandler:
      return moment != Moment::kBefore && moment != Moment::kHandling &&
             moment != Moment::kAfter;
    case Cause::kChannel:
      return moment != Moment::kBefore;
  }
  return false;
}

// Whether the cause acts at a random moment of a transfer, so that it may come
// too late.
bool IsDrawn(Cause cause, Moment moment) {
  return cause != Cause::kHandler &&
         (moment == Moment::kSending || moment == Moment::kReplying);
}

Script ScriptFor(Cause cause, Moment moment) {
  Script script;
  if (moment == Moment::kMidway) script.place = Place::kMidway;
  if (moment == Moment::kReplying) script.place = Place::kReplying;
  script.fails = cause == Cause::kHandler;
  script.holds = moment == Moment::kHandling || moment == Moment::kMidway;
  return script;
}

// Streams keep their channel, and end as if nothing had happened.
bool IsHarmless(Kind kind, Cause cause, Moment moment) {
  return moment == Moment::kAfter ||
         (cause == Cause::kChannel && kind != Kind::kUnary);
}

absl::StatusCode CodeOf(Cause cause) {
  switch (cause) {
    case Cause::kDeadline:
      return absl::StatusCode::kDeadlineExceeded;
    case Cause::kHandler:
      return absl::StatusCode::kAborted;
    default:
      return absl::StatusCode::kCancelled;
  }
}

class CancellationTest
    : public ::testing::TestWithParam<
          std::tuple<std::pair<Kind, const char*>, Message>> {
 protected:
  // The limit of open calls of a connection. The limit of the server is twice
  // as high.
  static constexpr int kPlaces = 8;

  void SetUp() override {
    const char* const seed = std::getenv("VERBENA_TEST_SEED");
    seed_ = seed != nullptr
                ? std::strtoull(seed, nullptr, 10)
                : static_cast<uint64_t>(
                      std::chrono::system_clock::now().time_since_epoch() /
                      std::chrono::microseconds(1));
    random_.seed(seed_);
    if (const char* const draws = std::getenv("VERBENA_TEST_DRAWS")) {
      ASSERT_TRUE(absl::SimpleAtoi(draws, &draws_) && draws_ > 0) << draws;
    }
    std::printf("to repeat it: VERBENA_TEST_SEED=%s\n",
                absl::StrCat(seed_).c_str());

    ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(absl::StrCat(testing_support::TestAddress(), ":0"),
                             &port);
    handlers_.Register(&builder);
    builder.SetMaxConcurrentCallsPerConnection(kPlaces).SetMaxConcurrentCalls(
        2 * kPlaces);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    ASSERT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    target_ = absl::StrCat(testing_support::TestAddress(), ":", port);
    Connect();
  }

  Kind kind() const { return std::get<0>(GetParam()).first; }
  const Message& message() const { return std::get<1>(GetParam()); }
  bool IsLarge() const { return message().payload_bytes > 100000; }

  void Connect() {
    ChannelOptions options;
    options.max_concurrent_calls = kPlaces;
    channel_ = CreateChannel(target_, options);
    ASSERT_TRUE(channel_->WaitForConnected(absl::Now() + absl::Minutes(1)));
    probe_ = channel_->AllocateBuffer(1);
  }

  // From nothing to as long as a call takes; short ones as often as long ones.
  absl::Duration DrawTime() {
    const uint64_t longest_us = IsLarge() ? 8000 : 500;
    return absl::Microseconds(random_() % (longest_us >> random_() % 6));
  }
  static void LetPass(absl::Duration time) {
    const absl::Time until = base::Now() + time;
    while (base::Now() < until) std::this_thread::yield();
  }

  // Makes a call that `cause` ends at `moment`. Returns its status.
  absl::Status Run(Cause cause, Moment moment) {
    const std::unique_ptr<AnyCall> call = AnyCall::New(kind(), message());
    handlers_.Play(ScriptFor(cause, moment));
    if (cause == Cause::kDeadline) {
      call->context().set_timeout(moment == Moment::kBefore ? absl::Seconds(-1)
                                  : IsDrawn(cause, moment)
                                      ? DrawTime()
                                      : absl::Milliseconds(1 + random_() % 20));
    }
    const bool by_client =
        cause == Cause::kTryCancel || cause == Cause::kChannel;
    if (by_client && moment == Moment::kBefore) Act(cause, *call);
    call->Start(channel_);
    if (by_client && moment != Moment::kBefore && moment != Moment::kAfter) {
      if (moment != Moment::kSending) handlers_.AwaitReached(1);
      if (IsDrawn(cause, moment)) LetPass(DrawTime());
      Act(cause, *call);
      if (IsHarmless(kind(), cause, moment)) handlers_.LetGo();
    }
    if (cause == Cause::kHandler) {
      handlers_.AwaitReached(1);
      handlers_.LetGo();
    }
    const absl::Status status = call->Wait();
    if (by_client && moment == Moment::kAfter) Act(cause, *call);
    return status;
  }

  void Act(Cause cause, AnyCall& call) {
    if (cause == Cause::kTryCancel) return call.context().TryCancel();
    channel_.reset();
  }

  // Lets what still travels arrive, and says how much is allocated after that.
  void ExpectNothingIsHeld() {
    handlers_.AwaitIdle();
    if (channel_ == nullptr) {
      EXPECT_EQ(AllocatedBeside(probe_), 0) << "of a channel that is no more";
      Connect();
    }
    const absl::Time deadline = base::Now() + absl::Minutes(1);
    uint64_t client = 0;
    uint64_t server = 0;
    do {
      handlers_.Play(Script());
      const auto echo = AnyCall::New(Kind::kUnary, kSmall);
      echo->Start(channel_);
      EXPECT_EQ(echo->Wait(), absl::OkStatus());
      client = AllocatedBeside(probe_);
      server = handlers_.allocated_bytes();
    } while (client + server > 0 && base::Now() < deadline && !HasFailure());
    EXPECT_EQ(client, 0) << "bytes of the client's arenas";
    EXPECT_EQ(server, 0) << "bytes of the server's bulk memory";
  }

  // Expects that kPlaces calls can be open at once.
  void ExpectAllPlacesAreFree() {
    handlers_.AwaitIdle();
    Script script;
    script.holds = true;
    handlers_.Play(script);
    std::vector<std::unique_ptr<AnyCall>> calls;
    for (int i = 0; i < kPlaces; ++i) {
      calls.push_back(AnyCall::New(kind(), kSmall));
      calls.back()->Start(channel_);
    }
    handlers_.AwaitReached(kPlaces);
    handlers_.LetGo();
    for (const auto& call : calls) EXPECT_EQ(call->Wait(), absl::OkStatus());
  }

  uint64_t seed_ = 0;
  int draws_ = 40;
  std::mt19937_64 random_;
  Handlers handlers_{message()};
  std::unique_ptr<Server> server_;
  std::string target_;
  std::shared_ptr<Channel> channel_;
  Buffer probe_;  // A buffer from the channel's memory.
};

INSTANTIATE_TEST_SUITE_P(Each, CancellationTest,
                         ::testing::Combine(::testing::ValuesIn(kKinds),
                                            ::testing::ValuesIn(kSizes)),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) +
                                  std::get<0>(info.param).second;
                         });

TEST_P(CancellationTest, LeavesNothingBehind) {
  for (const auto& [cause, cause_name] : kCauses) {
    for (const auto& [moment, moment_name] : kMoments) {
      if (!MayBe(kind(), cause, moment)) continue;
      SCOPED_TRACE(absl::StrCat("ended by ", cause_name, " ", moment_name));
      const bool harmless = IsHarmless(kind(), cause, moment);
      const int drawn = IsLarge() ? std::min(10, draws_) : draws_;
      int ended = 0;
      for (int i = 0; i < (IsDrawn(cause, moment) ? drawn : 3); ++i) {
        if (channel_ == nullptr) Connect();
        const absl::Status status = Run(cause, moment);
        const bool may_succeed = IsDrawn(cause, moment) || harmless;
        ended += status.ok() ? 0 : 1;
        EXPECT_TRUE(status.ok() ? may_succeed
                                : !harmless && status.code() == CodeOf(cause))
            << status;
        // A handler that is late must not see the next script.
        handlers_.AwaitIdle();
      }
      if (IsDrawn(cause, moment) && !harmless) {
        std::printf("%d of %d ended by %s %s\n", ended, drawn, cause_name,
                    moment_name);
      }
      ExpectNothingIsHeld();
      if (HasFailure()) return;
    }
  }
  ExpectAllPlacesAreFree();
  ExpectNothingIsHeld();
}

}  // namespace
}  // namespace verbena::end_to_end
