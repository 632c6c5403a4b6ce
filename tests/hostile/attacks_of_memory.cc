// Attacks of clients that reach for memory which is not theirs, and lie about
// their own.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "tests/hostile/attack.h"
#include "tests/hostile/requests.h"

namespace verbena::hostile {
namespace {

using transport::ArenaDescriptor;
using transport::ArenaHeader;
using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;
using transport::RequestHeader;

void ReachesOutsideItsArena(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    raw.Send(FrameText(raw.ArenaRequest(0, kEcho, 0xfffff000, 0x2000)))
        .IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void WritesToTheServer(Attacker& attacker) {
  uint32_t key = 0;
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    raw.Write(raw.arena_address(), ++key, "mine").IgnoreError();
    raw.Flush().IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void ReadsFromTheServer(Attacker& attacker) {
  uint32_t key = 0;
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    if (!raw.AllowOwnReads().ok()) return attacker.NoteRefusal();
    raw.Read(raw.arena_address(), ++key, 4096).IgnoreError();
    raw.Flush().IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void AddsToTheServer(Attacker& attacker) {
  uint32_t key = 0;
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    if (!raw.AllowOwnReads().ok()) return attacker.NoteRefusal();
    raw.FetchAdd(raw.arena_address(), ++key).IgnoreError();
    raw.Flush().IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

// Every other arena is of a connection that lives.
void NamesTheMemoryOfOthers(Attacker& attacker) {
  while (!attacker.over()) {
    for (const bool lives : {true, false}) {
      std::unique_ptr<RawPeer> other = attacker.Opened();
      if (other == nullptr) continue;
      const ArenaDescriptor arena = other->Request().arena;
      if (!lives) other.reset();
      const auto raw = attacker.Opened(
          Attacker::Small(), {}, [&](ArenaDescriptor& own) { own = arena; });
      if (raw == nullptr) continue;
      raw->Send(FrameText(raw->ArenaRequest(0, kEcho, 0, 60000))).IgnoreError();
      attacker.AwaitEnd(*raw);
    }
  }
}

void ClaimsFourGibibytes(Attacker& attacker) {
  while (!attacker.over()) {
    const auto raw = attacker.Opened(
        Attacker::Small(), {},
        [](ArenaDescriptor& arena) { arena.bytes = uint64_t{4} << 30; });
    if (raw == nullptr) continue;
    raw->Send(FrameText(raw->ArenaRequest(0, kEcho, 0, 64 << 20)))
        .IgnoreError();
    attacker.AwaitEnd(*raw);
  }
}

void OffersTooManyArenas(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    ArenaHeader offer = {};
    offer.frame = raw.Header(FrameType::kArena);
    offer.address = raw.arena_address();
    offer.bytes = raw.arena_bytes();
    offer.rkey = raw.arena_rkey();
    for (uint32_t i = 1; i <= transport::kMaxArenas; ++i) {
      offer.index = static_cast<uint16_t>(i);
      raw.Send(FrameText(offer)).IgnoreError();
    }
    attacker.AwaitEnd(raw);
  });
}

// Offers an arena, has the server READ a request there, withdraws the arena
// meanwhile, and writes other bytes where the server READs.
void ChangesWhatTheServerReads(Attacker& attacker) {
  constexpr uint32_t kBytes = 4 << 20;
  RawPeer::Options options = Attacker::Small();
  options.arena_bytes = kBytes;
  attacker.Repeat(options, [&](RawPeer& raw) {
    for (uint32_t turn = 0; !attacker.over(); ++turn) {
      // Each header says what has been received by then.
      ArenaHeader arena = {};
      arena.frame = raw.Header(FrameType::kArena);
      arena.address = raw.arena_address();
      arena.bytes = raw.arena_bytes();
      arena.rkey = raw.arena_rkey();
      arena.index = 1;
      if (!raw.Send(FrameText(arena)).ok()) return;
      RequestHeader request = raw.ArenaRequest(turn << 16, kEcho, 0, kBytes);
      request.message_arena = 1;
      if (!raw.Send(FrameText(request)).ok()) return;
      arena = {};
      arena.frame = raw.Header(FrameType::kArena);
      arena.index = 1;
      if (!raw.Send(FrameText(arena)).ok()) return;
      for (int value = 0; value < 4; ++value) {
        std::memset(raw.arena(), value, kBytes);
      }
      const auto response = raw.Receive(FrameType::kResponse);
      if (!response.ok()) return;
      attacker.NoteFrame(*response);
    }
  });
}

constexpr auto kAttacks = std::to_array<Attack>({
    {.name = "outside",
     .text = "names memory outside its arena",
     .run = ReachesOutsideItsArena,
     .flood = true},
    {.name = "write",
     .text = "WRITEs to the server with guessed keys",
     .run = WritesToTheServer,
     .flood = true},
    {.name = "read",
     .text = "READs from the server with guessed keys",
     .run = ReadsFromTheServer,
     .flood = true},
    {.name = "atomic",
     .text = "adds to the server's memory with guessed keys",
     .run = AddsToTheServer,
     .flood = true},
    {.name = "others-keys",
     .text = "names memory by keys of another connection, which lives or not",
     .run = NamesTheMemoryOfOthers,
     .flood = true},
    {.name = "claims",
     .text = "claims an arena of 4 GiB, and has 64 MiB of it READ",
     .run = ClaimsFourGibibytes,
     .flood = true},
    {.name = "arenas",
     .text = "offers more arenas than it may",
     .run = OffersTooManyArenas,
     .flood = true},
    {.name = "changes",
     .text = "changes and withdraws memory while the server READs it",
     .run = ChangesWhatTheServerReads,
     .flood = true},
});

}  // namespace

absl::Span<const Attack> AttacksOfMemory() { return kAttacks; }

}  // namespace verbena::hostile
