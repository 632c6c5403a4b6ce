// Attacks of clients that come and go, or come and stay.

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/credentials/shared_secret.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/requests.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/limits.h"

namespace verbena::hostile {
namespace {

using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;

void SaysNothing(Attacker& attacker) {
  std::deque<std::unique_ptr<RawPeer>> silent;
  RawPeer::Options options = Attacker::Small();
  options.receives = 1;
  while (!attacker.over()) {
    std::unique_ptr<RawPeer> raw = attacker.Connected(options);
    if (raw != nullptr) silent.push_back(std::move(raw));
    // More than there may be, within the descriptors of a process.
    if (silent.size() > 280) silent.pop_front();
  }
}

void ConnectsAndLeaves(Attacker& attacker) {
  while (!attacker.over()) attacker.Connected();
}

void LeavesBeforeTheAnswer(Attacker& attacker) {
  while (!attacker.over()) {
    auto raw = RawPeer::Create(attacker.target().open, Attacker::Small());
    if (!raw.ok()) continue;
    if ((*raw)->BeginConnect(EncodeConnectRequest((*raw)->Request())).ok()) {
      attacker.NoteConnection();
    }
  }
}

void ConnectsWithGarbage(Attacker& attacker) {
  while (!attacker.over()) {
    auto raw = RawPeer::Create(attacker.target().open, Attacker::Small());
    if (!raw.ok()) continue;
    if ((*raw)->Connect(std::string(40, '\x5a')).ok()) attacker.NoteRefusal();
  }
}

void BeginsWithARequest(Attacker& attacker) {
  while (!attacker.over()) {
    const std::unique_ptr<RawPeer> raw = attacker.Connected();
    if (raw == nullptr) continue;
    raw->Send(EchoOf(*raw, 0, 10)).IgnoreError();
    attacker.AwaitEnd(*raw);
  }
}

void ShowsFalseSecrets(Attacker& attacker) {
  for (int number = 0; !attacker.over(); ++number) {
    const std::string key = number % 2 == 0 ? kKeyName : "withdrawn";
    const auto stub = end_to_end::EndToEnd::NewStub(CreateChannel(
        attacker.target().secured,
        SharedSecretCredentials(
            key, absl::StrCat("guessed, number ", 10000000 + number))));
    ClientContext context;
    end_to_end::EchoRequest request;
    end_to_end::EchoReply reply;
    if (absl::IsUnauthenticated(stub->Echo(&context, request, &reply))) {
      attacker.NoteRefusal();
    }
  }
}

void StaysIdle(Attacker& attacker) {
  RawPeer::Options options = Attacker::Small();
  options.arena_bytes = 4096;
  options.receives = transport::kIdleReceives;
  options.sends = transport::kIdleReceives;
  std::vector<std::unique_ptr<RawPeer>> idle;
  // A few places are left to others.
  while (!attacker.over() &&
         idle.size() < transport::kMaxConnectionsPerPoller - 16) {
    if (auto raw = attacker.Opened(options)) idle.push_back(std::move(raw));
  }
  attacker.Wait();
}

void SaysBye(Attacker& attacker) {
  attacker.Repeat(Attacker::Careless(), [&](RawPeer& raw) {
    for (int i = 0; i < 60; ++i) {
      if (!raw.Send(FrameText(raw.Header(FrameType::kBye), "\x1b[2Jbye"))
               .ok()) {
        break;
      }
    }
    attacker.AwaitEnd(raw);
  });
}

constexpr auto kAttacks = std::to_array<Attack>({
    {.name = "silent",
     .text = "connects and says nothing, again and again",
     .run = SaysNothing,
     .flood = true},
    {.name = "come-and-go",
     .text = "connects and leaves at once",
     .run = ConnectsAndLeaves,
     .flood = true},
    {.name = "vanish",
     .text = "asks to connect and leaves before the answer",
     .run = LeavesBeforeTheAnswer,
     .flood = true},
    {.name = "garbage-hello",
     .text = "connects with garbage",
     .run = ConnectsWithGarbage,
     .flood = true},
    {.name = "no-hello",
     .text = "begins with a REQUEST",
     .run = BeginsWithARequest,
     .flood = true},
    {.name = "secrets",
     .text = "shows wrong secrets, and keys that were withdrawn",
     .run = ShowsFalseSecrets,
     .flood = true},
    {.name = "idle",
     .text = "holds 1,008 connections that do nothing",
     .run = StaysIdle},
    {.name = "byes",
     .text = "says BYE 60 times",
     .run = SaysBye,
     .flood = true},
});

}  // namespace

absl::Span<const Attack> AttacksOfConnections() { return kAttacks; }

}  // namespace verbena::hostile
