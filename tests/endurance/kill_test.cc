// Clients and servers that are killed at random moments, under a load of all
// kinds of calls: no other call outlives its deadline, and who survives holds
// no more than before.
//
//   kill_test                           some kills of each
//   kill_test --kills=1000 --seed=17    so many in all, from that seed
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
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/endurance/figures.h"
#include "tests/endurance/peer.h"
#include "tests/testing/child_process.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

ABSL_FLAG(int, kills, 60, "how many, of clients and of servers together");
ABSL_FLAG(uint64_t, seed, 1, "draws the calls and the moments");
// Whoever is to notice it may have to wait for a processor, beside all the
// processes that die and start here, and then for the callbacks of other calls,
// which check megabytes. It is less than the keepalive that ends calls when
// nothing else does.
ABSL_FLAG(int, overrun_seconds, 5,
          "how long after its deadline a call may end");

namespace verbena::endurance {
namespace {

using testing_support::TestAddress;

// In which a survivor lets go of what it held for the dead, and a port can be
// listened on again.
constexpr absl::Duration kPatience = absl::Seconds(30);

// After so many kills everything has happened that makes pools and caches grow.
constexpr int kWarmUpKills = 10;
// After so many more, what is held is compared with what was held then.
constexpr int kRoundKills = 100;

// The longest that a load runs undisturbed before something is killed.
constexpr int kUndisturbedMs = 40;

// What of each kind a survivor may hold beyond what it held after the warm-up,
// if it is not said to hold less. A server starts a worker, or one that stands
// in for a poller and has a timer, only when it needs one; a pool may not have
// been at its largest; and what the allocator has free between things in use
// does not go back to the system. What it maps, 64 MiB for each of some
// threads, it keeps; what is registered on the software device is mapped, too.
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

// Of a server without clients. Of bulk memory its two pollers keep the floor.
Figures NothingInUse() {
  return {{"connections", 0}, {"bulk", int64_t{2} << 20}};
}

// The first thing of which `figures` has more than `limits` allows; empty if
// there is none.
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

// What of `figures` may be there later, with what is allowed on top.
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
  // Calls `round` for the warm-up, and then until all kills are done. It kills
  // as often as it is told, and leaves `survivor` without calls: that must hold
  // no more than `at_rest` then, and little more than after the warm-up.
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

  // For the moment of a kill; nothing depends on what happens meanwhile.
  void LetSomeTimePass() {
    LetPass(absl::Milliseconds(Draw() % kUndisturbedMs));
  }

  std::unique_ptr<Peer> StartVictim(const std::string& target) {
    std::unique_ptr<Peer> victim = Peer::StartClient(target);
    victim->StartLoad(Draw());
    return victim;
  }

  // The dead one may still have its port.
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

  // What `peer` holds when it has let go of everything that it is about to.
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

  // What `peer` holds when it has no more of anything than `limits` says.
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
  // What happens to others is none of its business. (On a busy machine an
  // attempt to connect may take longer than it may.)
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
  // Without a channel it is always the same, once it has had one; but for
  // the socket by which threads that sleep are woken on the software device.
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
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
