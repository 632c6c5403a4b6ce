// Kills clients and servers at random moments, under a load of all kinds of
// calls. No call of another process may outlive its deadline, and survivors
// must hold no more than before.
//
//   kill_test                           some kills of each
//   kill_test --kills=1000 --seed=17    1000 kills in all, drawn from seed 17
//   kill_test --overrun_seconds=15      calls may end so long after their
//                                       deadlines, for slow machines
//
// A seed draws the calls and the moments. It does not repeat a run to the step,
// because the processes are real.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/endurance/figures.h"
#include "tests/endurance/peer.h"
#include "tests/testing/child_process.h"
#include "tools/command_line/parse_flags.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

ABSL_FLAG(int, kills, 60, "how many, of clients and of servers together");
ABSL_FLAG(uint64_t, seed, 1, "draws the calls and the moments");
// A client that ends a call may wait for a processor, because processes die and
// start here all the time. Then it waits for callbacks of other calls, which
// check megabytes. The default is less than the keepalive, which ends calls
// when nothing else does.
ABSL_FLAG(int, overrun_seconds, 5,
          "how long after its deadline a call may end");

namespace verbena::endurance {
namespace {

using testing_support::TestAddress;

// Time in which a survivor must release the resources of a dead peer, and a
// port must be free again.
constexpr absl::Duration kPatience = absl::Seconds(30);

// Kills after which pools and caches have grown to their usual size.
constexpr int kWarmUpKills = 10;
// Kills between two comparisons with the figures after the warm-up.
constexpr int kRoundKills = 100;

// The longest that a load runs undisturbed before something is killed.
constexpr int kUndisturbedMs = 40;

// Returns how far each figure of a survivor may rise after the warm-up, unless
// the test limits that figure itself. Servers start workers, and standbys with
// their timers, only when they need them. A pool may not have been at its
// largest. The allocator keeps free memory between blocks in use, and the 64
// MiB that it maps for each of some threads. Memory that is registered on the
// software device counts as mapped, too.
const Figures& MoreAllowed() {
  static const auto* const allowed =
      new Figures{{"descriptors", 2},
                  {"threads", 10},
                  {"heap", int64_t{4} << 20},
                  {"resident", int64_t{32} << 20},
                  {"mapped", int64_t{512} << 20},
                  {"pinned", int64_t{4} << 20},
                  {"frames", int64_t{4} << 20}};
  return *allowed;
}

// Returns limits for a server without clients. Its two pollers keep the floor
// of their bulk memory.
Figures NothingInUse() {
  return {{"connections", 0}, {"bulk", int64_t{2} << 20}};
}

// Returns a text about the first figure that is above its limit or missing;
// empty if there is none.
std::string Excess(const Figures& figures, const Figures& limits) {
  for (const auto& [name, limit] : limits) {
    const auto found = figures.find(name);
    if (found == figures.end()) return absl::StrCat("it does not say ", name);
    if (found->second > limit) {
      return absl::StrCat(name, " is ", found->second, ", expected at most ",
                          limit);
    }
  }
  return "";
}

// Returns limits for later: `figures` plus MoreAllowed().
Figures WithMoreAllowed(const Figures& figures) {
  Figures limits;
  for (const auto& [name, more] : MoreAllowed()) {
    const auto found = figures.find(name);
    if (found != figures.end()) limits[name] = found->second + more;
  }
  return limits;
}

class KillTest : public testing::Test {
 protected:
  // Calls `round` for the warm-up, and then until all kills are done. `round`
  // kills as often as it is told, and leaves `survivor` without calls. After
  // each round the figures of `survivor` must be within `at_rest`, and within
  // those of the warm-up plus MoreAllowed().
  template <typename Round>
  void RunRounds(Peer& survivor, const Figures& at_rest, const Round& round) {
    std::printf("to repeat it: --seed=%s --kills=%d\n",
                absl::StrCat(seed_).c_str(), 2 * kills_);
    round(kWarmUpKills);
    const Figures before = AwaitAtMost(survivor, at_rest);
    Print(0, before);
    Figures limits = at_rest;
    limits.merge(WithMoreAllowed(before));
    for (int done = 0; done < kills_ && !HasFailure();) {
      const int now = std::min(kRoundKills, kills_ - done);
      round(now);
      done += now;
      Print(done, AwaitAtMost(survivor, limits));
    }
  }

  void ExpectInTime(Peer& client) {
    EXPECT_LE(absl::Microseconds(client.Report()["overrun_us"]), overrun_max_);
  }

  uint64_t Draw() { return random_(); }
  bool OneIn(uint64_t count) { return Draw() % count == 0; }

  // Waits for a random time before a kill.
  void LetSomeTimePass() {
    LetPass(absl::Milliseconds(Draw() % kUndisturbedMs));
  }

  std::unique_ptr<Peer> StartVictim(const std::string& target) {
    std::unique_ptr<Peer> victim = Peer::StartClient(target);
    victim->StartLoad(Draw());
    return victim;
  }

  // Tries again for a while, because a dead server may still have its port.
  static std::unique_ptr<Peer> StartServer(const std::string& address) {
    const absl::Time deadline = base::Now() + kPatience;
    while (true) {
      std::string problem;
      std::unique_ptr<Peer> server = Peer::StartServer(address, &problem);
      if (server != nullptr) return server;
      if (base::Now() > deadline) {
        ADD_FAILURE() << "no server can start: " << problem;
        return nullptr;
      }
      LetPass(absl::Milliseconds(10));
    }
  }

  // Waits until the descriptors and threads of `peer` do not change any more.
  // Returns its figures.
  static Figures Settled(Peer& peer) {
    const absl::Time deadline = base::Now() + kPatience;
    Figures before;
    Figures after = peer.TrimAndReport();
    do {
      before = std::move(after);
      LetPass(absl::Milliseconds(100));
      after = peer.TrimAndReport();
    } while ((before["descriptors"] != after["descriptors"] ||
              before["threads"] != after["threads"]) &&
             base::Now() < deadline);
    return after;
  }

 private:
  static void LetPass(absl::Duration time) {
    base::Mutex mutex;
    base::CondVar never;
    const absl::Time until = base::Now() + time;
    const base::MutexLock lock(mutex);
    while (base::Now() < until) never.WaitUntil(mutex, until);
  }

  // Waits until no figure of `peer` is above `limits`. Returns its figures.
  static Figures AwaitAtMost(Peer& peer, const Figures& limits) {
    const absl::Time deadline = base::Now() + kPatience;
    while (true) {
      Figures figures = peer.TrimAndReport();
      const std::string excess = Excess(figures, limits);
      if (excess.empty()) return figures;
      if (figures.empty() || base::Now() > deadline) {
        ADD_FAILURE() << excess << "; all it says is: " << ToLine(figures);
        return figures;
      }
      LetPass(absl::Milliseconds(10));
    }
  }

  static void Print(int kills, const Figures& figures) {
    std::printf("%d kills after the warm-up: %s\n", kills,
                ToLine(figures).c_str());
    std::fflush(stdout);
  }

  const uint64_t seed_ = absl::GetFlag(FLAGS_seed);
  const int kills_ = absl::GetFlag(FLAGS_kills) / 2;
  const absl::Duration overrun_max_ =
      absl::Seconds(absl::GetFlag(FLAGS_overrun_seconds));
  std::mt19937_64 random_{seed_};
};

TEST_F(KillTest, WhoeverIsLeftWhenClientsDie) {
  const std::unique_ptr<Peer> server =
      StartServer(absl::StrCat(TestAddress(), ":0"));
  ASSERT_NE(server, nullptr);
  const std::unique_ptr<Peer> bystander = Peer::StartClient(server->address());
  RunRounds(*server, NothingInUse(), [&](int kills) {
    bystander->StartLoad(Draw());
    std::vector<std::unique_ptr<Peer>> victims;
    for (int i = 0; i < 2; ++i) {
      victims.push_back(StartVictim(server->address()));
    }
    for (int i = 0; i < kills && !HasFailure(); ++i) {
      std::unique_ptr<Peer>& victim = victims[Draw() % victims.size()];
      // Some are killed while they connect.
      if (!OneIn(4)) victim->AwaitSuccess();
      LetSomeTimePass();
      victim->Kill();
      victim = StartVictim(server->address());
    }
    for (const std::unique_ptr<Peer>& victim : victims) victim->Kill();
    bystander->AwaitSuccess();
    bystander->StopLoad();
    ExpectInTime(*bystander);
  });
  std::printf("bystander: %s\n", ToLine(bystander->Report()).c_str());
  // Killed clients must not disturb the bystander. On a busy machine an attempt
  // to connect may still take too long, so one call in a hundred may fail.
  Figures calls = bystander->Report();
  EXPECT_LE(calls["UNAVAILABLE"], calls["OK"] / 100);
  bystander->End();
  server->End();
}

TEST_F(KillTest, WhoeverIsLeftWhenServersDie) {
  std::unique_ptr<Peer> server = StartServer(absl::StrCat(TestAddress(), ":0"));
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  const std::unique_ptr<Peer> client = Peer::StartClient(address);
  // A client that has had a channel always holds the same without one. Only the
  // socket that wakes sleeping threads on the software device comes and goes.
  client->StartLoad(Draw());
  client->AwaitSuccess();
  client->StopLoad();
  Figures at_rest = Settled(*client);
  at_rest = {{"descriptors", at_rest["descriptors"] + 1},
             {"threads", at_rest["threads"]}};
  RunRounds(*client, at_rest, [&](int kills) {
    client->StartLoad(Draw());
    for (int i = 0; i < kills && !HasFailure(); ++i) {
      // Some are killed while their client connects.
      if (!OneIn(8)) client->AwaitSuccess();
      LetSomeTimePass();
      server->Kill();
      server = StartServer(address);
      ASSERT_NE(server, nullptr);
    }
    client->AwaitSuccess();
    client->StopLoad();
    ExpectInTime(*client);
  });
  client->End();
  server->End();
}

}  // namespace
}  // namespace verbena::endurance

int main(int argc, char** argv) {
  int exit_code = 0;
  if (verbena::endurance::BePeer(argc, argv, &exit_code)) return exit_code;
  testing::InitGoogleTest(&argc, argv);
  verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "kill_test",
       .about = " kills clients and servers under load\n"});
  return RUN_ALL_TESTS();
}
