// Attacks of clients that send what the protocol forbids.

#include <array>
#include <cstdint>
#include <string>

#include "tests/hostile/attack.h"
#include "tests/hostile/requests.h"

namespace verbena::hostile {
namespace {

using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;

void SendsWithoutCredits(Attacker& attacker) {
  attacker.Repeat(Attacker::Careless(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 500; ++i) {
      if (!raw.Send(EchoOf(raw, i, 10)).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

void SendsGarbage(Attacker& attacker) {
  uint32_t seed = 1;
  attacker.Repeat(Attacker::Careless(), [&](RawPeer& raw) {
    raw.Send(Random(200, seed)).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void SendsFalseChecksums(Attacker& attacker) {
  uint32_t seed = 1;
  while (!attacker.over()) {
    const auto raw = attacker.Opened(
        Attacker::Small(),
        {{transport::kOptionChecksum, transport::kChecksumKind}});
    if (raw == nullptr) continue;
    raw->Send(EchoOf(*raw, 0, 10) + Random(sizeof(transport::FrameSums), seed))
        .IgnoreError();
    attacker.AwaitEnd(*raw);
  }
}

void GrantsNothing(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (int i = 0; i < 100; ++i) {
      if (!raw.Send(FrameText(raw.Header(FrameType::kGrant))).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

void GrantsTooMuch(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    FrameHeader header = raw.Header(FrameType::kPing);
    header.credit_limit = UINT32_MAX;
    raw.Send(FrameText(header)).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void ReturnsWhatItDoesNotHave(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    transport::ReturnHeader header = {};
    header.frame = raw.Header(FrameType::kReturn);
    header.credits = UINT32_MAX;
    raw.Send(FrameText(header)).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void UsesASlotTwice(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (int i = 0; i < 2; ++i) {
      raw.Send(CallOf(raw, 5, kBlock, "")).IgnoreError();
    }
    attacker.AwaitEnd(raw);
  });
}

void TakesReceivesByImmediates(Attacker& attacker) {
  attacker.Repeat(Attacker::Careless(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 100; ++i) {
      if (!raw.WriteWithImmediate(0, 0, 0).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

constexpr auto kAttacks = std::to_array<Attack>({
    {.name = "no-credit",
     .text = "sends 500 frames without credit",
     .run = SendsWithoutCredits,
     .flood = true},
    {.name = "garbage",
     .text = "sends random bytes",
     .run = SendsGarbage,
     .flood = true},
    {.name = "bad-sums",
     .text = "agrees on checksums, and sends false ones",
     .run = SendsFalseChecksums,
     .flood = true},
    {.name = "grants",
     .text = "sends GRANTs that grant nothing",
     .run = GrantsNothing,
     .flood = true},
    {.name = "overgrant",
     .text = "grants more credits than there may be",
     .run = GrantsTooMuch,
     .flood = true},
    {.name = "returns",
     .text = "returns credits that it does not have",
     .run = ReturnsWhatItDoesNotHave,
     .flood = true},
    {.name = "twice",
     .text = "begins a call in a slot that is in use",
     .run = UsesASlotTwice,
     .flood = true},
    {.name = "immediate",
     .text = "takes receives by WRITEs with immediate data",
     .run = TakesReceivesByImmediates,
     .flood = true},
});

}  // namespace

absl::Span<const Attack> AttacksOfFrames() { return kAttacks; }

}  // namespace verbena::hostile
