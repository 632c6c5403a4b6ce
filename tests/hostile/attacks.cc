// The attacks: each a function of a few lines, and a line in the table at the
// end.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/method_hash.h"
#include "tests/hostile/attack.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/limits.h"

namespace verbena::hostile {
namespace {

using end_to_end::EndToEnd;
using end_to_end::Item;
using end_to_end::Key;
using end_to_end::ListRequest;
using end_to_end::Nothing;
using end_to_end::StreamService;
using transport::Behind;
using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::HeaderOf;
using transport::RawPeer;
using transport::RequestHeader;

constexpr uint64_t kEcho = MethodHash("verbena.end_to_end.EndToEnd/Echo");
constexpr uint64_t kBlock = MethodHash("verbena.end_to_end.EndToEnd/Block");

// An EchoRequest that asks for `bytes` bytes: its field 2 alone.
std::string AskFor(uint64_t bytes) {
  std::string text = "\x10";
  for (; bytes >= 0x80; bytes >>= 7) {
    text += static_cast<char>((bytes & 0x7f) | 0x80);
  }
  return text + static_cast<char>(bytes);
}

std::string EchoOf(const RawPeer& raw, uint32_t call, uint64_t reply_bytes) {
  const std::string message = AskFor(reply_bytes);
  RequestHeader request =
      raw.InlineRequest(call, kEcho, static_cast<uint32_t>(message.size()));
  request.frame.flags |= transport::kFlagCreditsWanted;
  return FrameText(request, message);
}

// --- Before anybody was let in ----------------------------------------------

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

void ConnectsWithGarbage(Attacker& attacker) {
  while (!attacker.over()) {
    auto raw = RawPeer::Create(attacker.address(), Attacker::Small());
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

// --- Frames that break the rules --------------------------------------------

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
    std::string frame(200, '\0');
    for (char& byte : frame) {
      byte = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
    }
    raw.Send(frame).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void GrantsNothing(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (int i = 0; i < 100; ++i) {
      if (!raw.Send(FrameText(raw.Header(FrameType::kGrant))).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

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

void TakesReceivesByImmediates(Attacker& attacker) {
  attacker.Repeat(Attacker::Careless(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 100; ++i) {
      if (!raw.WriteWithImmediate(0, 0, 0).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

// --- What keeps the server waiting ------------------------------------------

void ReceivesNothing(Attacker& attacker) {
  RawPeer::Options options = Attacker::Small();
  options.receives = 32;
  options.keep_receives = false;
  std::vector<std::unique_ptr<RawPeer>> clients;
  for (int i = 0; i < 20 && !attacker.over(); ++i) {
    std::unique_ptr<RawPeer> raw =
        attacker.Opened(options, {{transport::kOptionTrains, ""}});
    if (raw == nullptr) continue;
    for (uint32_t train = 0; train < 12; ++train) {
      std::vector<std::string> frames;
      for (uint32_t call = 0; call < transport::kTrainFrames; ++call) {
        const std::string message = AskFor(5000);
        RequestHeader request =
            raw->InlineRequest(train * transport::kTrainFrames + call, kEcho,
                               static_cast<uint32_t>(message.size()));
        request.frame.flags |= transport::kFlagCreditsWanted;
        frames.push_back(
            FrameText(call == 0 ? request : Behind(request), message));
      }
      if (!raw->Send(transport::TrainText(frames)).ok()) break;
    }
    clients.push_back(std::move(raw));
  }
  for (const auto& raw : clients) attacker.AwaitEnd(*raw);
  attacker.Wait();
}

void ReturnsNoCredits(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < transport::kCredits + 10; ++i) {
      const std::string message = AskFor(10);
      RequestHeader request =
          raw.InlineRequest(i, kEcho, static_cast<uint32_t>(message.size()));
      request.frame.credit_limit = transport::kCredits;
      if (!raw.Send(FrameText(request, message)).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

void NeverFinishesAFrame(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    RequestHeader request = raw.InlineRequest(0, kEcho, 16000);
    request.frame.flags = transport::kFlagContinued;
    std::string text = FrameText(request, std::string(8000, 'x'));
    FrameHeader header = HeaderOf<FrameHeader>(text);
    header.body_bytes = 16000;
    text.replace(0, sizeof(header), reinterpret_cast<const char*>(&header),
                 sizeof(header));
    raw.Send(text).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void LendsNoMemory(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 50; ++i) {
      if (!raw.Send(EchoOf(raw, i, 1000000)).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
}

// --- What is allowed --------------------------------------------------------

void FloodsWithCalls(Attacker& attacker) {
  const std::unique_ptr<EndToEnd::Stub> stub =
      EndToEnd::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  const auto flood = [&] {
    while (!attacker.over()) {
      ClientContext context;
      end_to_end::EchoRequest request;
      end_to_end::EchoReply reply;
      request.set_payload("flood");
      stub->Echo(&context, request, &reply).IgnoreError();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) threads.emplace_back(flood);
  for (std::thread& thread : threads) thread.join();
}

void FloodsWithLargeCalls(Attacker& attacker) {
  const std::unique_ptr<EndToEnd::Stub> stub =
      EndToEnd::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  const auto flood = [&] {
    end_to_end::EchoRequest request;
    request.set_payload(std::string(4 << 20, 'x'));
    while (!attacker.over()) {
      ClientContext context;
      end_to_end::EchoReply reply;
      stub->Echo(&context, request, &reply).IgnoreError();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(flood);
  for (std::thread& thread : threads) thread.join();
}

// Two methods that block: each could have 224 of 256 workers.
void BlocksWorkers(Attacker& attacker) {
  const std::shared_ptr<Channel> channel = attacker.NewChannel();
  attacker.NoteConnection();
  const auto stub = EndToEnd::NewStub(channel);
  std::vector<std::thread> threads;
  for (int i = 0; i < 124; ++i) {
    threads.emplace_back([&stub, &attacker, i] {
      ClientContext context;
      context.set_timeout(attacker.left());
      Key key;
      key.set_key(std::to_string(i));
      Nothing nothing;
      stub->Block(&context, key, &nothing).IgnoreError();
    });
  }
  const auto streams = StreamService::NewStub(channel);
  std::vector<ClientContext> contexts(130);
  std::vector<std::unique_ptr<ClientReaderWriter<Item, Item>>> chats;
  for (ClientContext& context : contexts) {
    context.set_timeout(attacker.left());
    chats.push_back(streams->Chat(&context));
  }
  attacker.Wait();
  for (const auto& chat : chats) chat->Finish().IgnoreError();
  for (std::thread& thread : threads) thread.join();
}

void ReadsNothingOfItsStreams(Attacker& attacker) {
  const auto streams = StreamService::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  ListRequest request;
  request.set_count(1000000);
  request.set_payload_bytes(60000);
  std::vector<ClientContext> contexts(200);
  std::vector<std::unique_ptr<ClientReader<Item>>> readers;
  for (ClientContext& context : contexts) {
    context.set_timeout(attacker.left());
    readers.push_back(streams->List(&context, request));
  }
  attacker.Wait();
  for (const auto& reader : readers) reader->Finish().IgnoreError();
}

void FloodsWithPings(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    while (!attacker.over() &&
           raw.Send(FrameText(raw.Header(FrameType::kPing))).ok()) {
      raw.Receive(FrameType::kPong).IgnoreError();
    }
  });
}

void CancelsItsCalls(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t call = 0; call < 250 && !attacker.over(); ++call) {
      RequestHeader request = raw.InlineRequest(call, kBlock, 0);
      request.frame.flags |= transport::kFlagCreditsWanted;
      if (!raw.Send(FrameText(request)).ok()) return;
      if (!raw.Send(FrameText(raw.Header(FrameType::kCancel, call))).ok()) {
        return;
      }
    }
  });
}

void LeavesAmidItsCalls(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 4; ++i) {
      raw.Send(FrameText(raw.ArenaRequest(i, kEcho, 0, 60000))).IgnoreError();
    }
  });
}

constexpr auto kAttacks = std::to_array<Attack>({
    {"silent", "connects and says nothing, again and again", SaysNothing},
    {"come-and-go", "connects and leaves at once", ConnectsAndLeaves},
    {"garbage-hello", "connects with garbage", ConnectsWithGarbage},
    {"no-hello", "begins with a REQUEST", BeginsWithARequest},
    {"no-credit", "sends 500 frames without credit", SendsWithoutCredits},
    {"garbage", "sends random bytes", SendsGarbage},
    {"grants", "sends GRANTs that grant nothing", GrantsNothing},
    {"outside", "names memory outside its arena", ReachesOutsideItsArena},
    {"write", "WRITEs to the server with guessed keys", WritesToTheServer},
    {"immediate", "takes receives by WRITEs with immediate data",
     TakesReceivesByImmediates},
    {"no-receives", "20 clients ask for replies and receive none",
     ReceivesNothing},
    {"no-credits-back", "asks for replies and gives no credits",
     ReturnsNoCredits},
    {"half-frame", "never finishes a frame", NeverFinishesAFrame},
    {"no-lease", "lends no memory for 50 large replies", LendsNoMemory},
    {"calls", "32 threads make small calls", FloodsWithCalls},
    {"large-calls", "4 threads echo 4 MiB", FloodsWithLargeCalls},
    {"block", "254 calls of two methods block", BlocksWorkers},
    {"unread", "reads nothing of 200 streams", ReadsNothingOfItsStreams},
    {"pings", "sends PINGs", FloodsWithPings},
    {"cancel", "begins calls and cancels each at once", CancelsItsCalls},
    {"leave", "leaves amid large requests", LeavesAmidItsCalls},
    {"stopped", "is stopped amid 4 threads of large calls",
     FloodsWithLargeCalls, /*stopped=*/true},
});

}  // namespace

absl::Span<const Attack> AllAttacks() { return kAttacks; }

}  // namespace verbena::hostile
