// Attacks of clients that keep the server waiting, and hold what it has given
// them.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/requests.h"
#include "tests/integration/test_service.verbena.h"

namespace verbena::hostile {
namespace {

using end_to_end::EndToEnd;
using end_to_end::Item;
using end_to_end::Key;
using end_to_end::ListRequest;
using end_to_end::Nothing;
using end_to_end::StreamService;
using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;
using transport::RequestHeader;

// Trains whose replies take more receives than such a client has.
constexpr uint32_t kTrains = 12;

RawPeer::Options FewReceives() {
  RawPeer::Options options = Attacker::Small();
  options.receives = 32;
  options.keep_receives = false;
  return options;
}

void ReceivesNothing(Attacker& attacker) {
  std::vector<std::unique_ptr<RawPeer>> clients;
  for (int i = 0; i < 20 && !attacker.over(); ++i) {
    auto raw = attacker.Opened(FewReceives(), {{transport::kOptionTrains, ""}});
    if (raw == nullptr) continue;
    AskInTrains(*raw, kTrains);
    clients.push_back(std::move(raw));
  }
  for (const auto& raw : clients) attacker.AwaitEnd(*raw);
  attacker.Wait();
}

void ReceivesNowAndThen(Attacker& attacker) {
  while (!attacker.over()) {
    const auto raw =
        attacker.Opened(FewReceives(), {{transport::kOptionTrains, ""}});
    if (raw == nullptr) continue;
    AskInTrains(*raw, kTrains);
    for (int taken = 0; raw->ReceiveOneMore().ok();) {
      auto frame = raw->TryReceive();
      for (; frame.ok() && frame->has_value(); frame = raw->TryReceive()) {
        attacker.NoteWord(absl::StrCat(++taken, " frames came"));
      }
      if (!frame.ok()) break;
      attacker.Rest(absl::Milliseconds(300));
      if (attacker.over()) return;
    }
    attacker.AwaitEnd(*raw);
  }
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
    raw.Send(HalfARequest(raw)).IgnoreError();
    attacker.AwaitEnd(raw);
  });
}

void SendsAByteNowAndThen(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    raw.Send(HalfARequest(raw)).IgnoreError();
    const FrameHeader more = raw.Header(FrameType::kContinuation);
    while (!attacker.over() && raw.Send(FrameText(more, "x")).ok() &&
           raw.Flush().ok()) {
      attacker.Rest(absl::Milliseconds(300));
    }
    attacker.AwaitEnd(raw);
  });
}

void NeverEndsItsStreams(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t call = 0; call < transport::kDefaultMaxOpenCalls; ++call) {
      const FrameHeader data = raw.Header(FrameType::kData, call);
      if (!raw.Send(StreamOf(raw, call, kRecord)).ok() ||
          !raw.Send(FrameText(data, Announced(1000, "part"))).ok()) {
        break;
      }
    }
    attacker.AwaitEnd(raw);
  });
}

void NeverBeginsItsCalls(Attacker& attacker) {
  std::vector<std::unique_ptr<RawPeer>> clients;
  const std::string metadata(8000, 'm');
  for (int i = 0; i < 10 && !attacker.over(); ++i) {
    auto raw = attacker.Opened();
    if (raw == nullptr) continue;
    for (uint32_t call = 0; call < transport::kDefaultMaxOpenCalls; ++call) {
      const FrameHeader header = raw->Header(FrameType::kMetadata, call);
      if (!raw->Send(FrameText(header, metadata)).ok()) break;
    }
    clients.push_back(std::move(raw));
  }
  for (const auto& raw : clients) attacker.AwaitEnd(*raw);
  attacker.Wait();
}

void LendsNoMemory(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t i = 0; i < 50; ++i) {
      if (!raw.Send(EchoOf(raw, i, 1000000)).ok()) break;
    }
    attacker.AwaitEnd(raw);
  });
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

// More calls than workers and their queue take together.
void FillsTheQueueOfWorkers(Attacker& attacker) {
  std::vector<std::unique_ptr<RawPeer>> clients;
  for (int i = 0; i < 20 && !attacker.over(); ++i) {
    auto raw = attacker.Opened();
    if (raw == nullptr) continue;
    for (uint32_t call = 0; call < transport::kDefaultMaxOpenCalls; ++call) {
      if (!raw->Send(CallOf(*raw, call, kBlock, "")).ok()) break;
    }
    clients.push_back(std::move(raw));
  }
  for (const auto& raw : clients) attacker.AwaitEnd(*raw);
  attacker.Wait();
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

constexpr auto kAttacks = std::to_array<Attack>({
    {.name = "no-receives",
     .text = "20 clients ask for replies and receive none",
     .run = ReceivesNothing},
    {.name = "one-receive",
     .text = "the same, and receives one every 300 ms",
     .run = ReceivesNowAndThen},
    {.name = "no-credits-back",
     .text = "asks for replies and gives no credits",
     .run = ReturnsNoCredits},
    {.name = "half-frame",
     .text = "never finishes a frame",
     .run = NeverFinishesAFrame},
    {.name = "one-byte",
     .text = "sends a byte of a frame every 300 ms",
     .run = SendsAByteNowAndThen},
    {.name = "half-streams",
     .text = "begins 256 streams, and a message of each",
     .run = NeverEndsItsStreams},
    {.name = "metadata",
     .text = "10 clients send 8,000 bytes of metadata for each of 256 calls, "
             "and no call",
     .run = NeverBeginsItsCalls},
    {.name = "no-lease",
     .text = "lends no memory for 50 large replies",
     .run = LendsNoMemory},
    {.name = "block",
     .text = "254 calls of two methods block",
     .run = BlocksWorkers},
    {.name = "queue",
     .text = "20 clients make 256 calls each that block",
     .run = FillsTheQueueOfWorkers},
    {.name = "unread",
     .text = "reads nothing of 200 streams",
     .run = ReadsNothingOfItsStreams},
});

}  // namespace

absl::Span<const Attack> AttacksOfWaiting() { return kAttacks; }

}  // namespace verbena::hostile
