// Attacks of clients that keep to the protocol, and do as much of it as they
// can.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.verbena.h"
#include "grpc/reflection/v1/reflection.verbena.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/requests.h"
#include "tests/integration/test_service.verbena.h"

namespace verbena::hostile {
namespace {

using end_to_end::EndToEnd;
using grpc::health::v1::Health;
using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::RawPeer;
using transport::RequestHeader;

// Has `act` done on so many threads until the time is over.
void OnThreads(Attacker& attacker, int count, absl::FunctionRef<void()> act) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      while (!attacker.over()) act();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Echo(EndToEnd::Stub& stub, const std::string& payload) {
  ClientContext context;
  end_to_end::EchoRequest request;
  end_to_end::EchoReply reply;
  request.set_payload(payload);
  stub.Echo(&context, request, &reply).IgnoreError();
}

void FloodsWithCalls(Attacker& attacker) {
  const auto stub = EndToEnd::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  OnThreads(attacker, 32, [&] { Echo(*stub, "flood"); });
}

void FloodsWithLargeCalls(Attacker& attacker) {
  const auto stub = EndToEnd::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  const std::string payload(4 << 20, 'x');
  OnThreads(attacker, 4, [&] { Echo(*stub, payload); });
}

// Makes calls 32 at a time on a raw connection: those that `frame` returns.
void MakeCalls(
    Attacker& attacker,
    absl::FunctionRef<std::string(const RawPeer&, uint32_t call)> frame) {
  constexpr uint32_t kTogether = 32;
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t turn = 0; !attacker.over(); ++turn) {
      for (uint32_t slot = 0; slot < kTogether; ++slot) {
        if (!raw.Send(frame(raw, turn << 16 | slot)).ok()) return;
      }
      for (uint32_t slot = 0; slot < kTogether; ++slot) {
        const auto response = raw.Receive(FrameType::kResponse);
        if (!response.ok()) return;
        attacker.NoteFrame(*response);
      }
    }
  });
}

void SendsMalformedMessages(Attacker& attacker) {
  uint32_t seed = 1;
  MakeCalls(attacker, [&](const RawPeer& raw, uint32_t call) {
    return CallOf(raw, call, kEcho, Random(1000, seed));
  });
}

void CallsWhatIsNotThere(Attacker& attacker) {
  uint64_t method = 1;
  MakeCalls(attacker, [&](const RawPeer& raw, uint32_t call) {
    return CallOf(raw, call, method += 0x9e3779b97f4a7c15, "");
  });
}

void GivesNoTime(Attacker& attacker) {
  MakeCalls(attacker, [&](const RawPeer& raw, uint32_t call) {
    RequestHeader request = raw.InlineRequest(call, kBlock, 0);
    request.frame.flags |= transport::kFlagCreditsWanted;
    request.timeout_us = call % 2;
    return FrameText(request);
  });
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
      if (!raw.Send(CallOf(raw, call, kBlock, "")).ok()) return;
      if (!raw.Send(FrameText(raw.Header(FrameType::kCancel, call))).ok()) {
        return;
      }
    }
  });
}

void CancelsWhatIsNotThere(Attacker& attacker) {
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t turn = 0; !attacker.over(); ++turn) {
      FrameHeader cancel = raw.Header(FrameType::kCancel, turn % 256);
      cancel.flags |= transport::kFlagCreditsWanted;
      if (!raw.Send(FrameText(cancel)).ok()) return;
      // Takes what has come.
      if (!raw.TryReceive().ok()) return;
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

void AllowsItsStreamsEverything(Attacker& attacker) {
  end_to_end::ListRequest list;
  list.set_count(1'000'000'000);
  list.set_payload_bytes(8000);
  const std::string message = list.SerializeAsString();
  attacker.Repeat(Attacker::Small(), [&](RawPeer& raw) {
    for (uint32_t call = 0; call < 16; ++call) {
      transport::WindowHeader window = {};
      window.frame = raw.Header(FrameType::kWindow, call);
      window.limit = UINT64_MAX;
      FrameHeader data = raw.Header(FrameType::kData, call);
      data.flags |= transport::kFlagLastData;
      for (const std::string& frame :
           {StreamOf(raw, call, kList),
            FrameText(data, Announced(static_cast<uint32_t>(message.size()),
                                      message)),
            FrameText(window)}) {
        if (!raw.Send(frame).ok()) return;
      }
    }
    FrameHeader ping = raw.Header(FrameType::kPing);
    for (int taken = 0; !attacker.over(); taken += 10) {
      // Tells of credits with every tenth frame.
      for (int i = 0; i < 10; ++i) {
        if (!raw.Receive().ok()) return;
      }
      attacker.NoteWord(absl::StrCat(taken, " frames came"));
      ping.credit_limit = raw.Header(FrameType::kPing).credit_limit;
      if (!raw.Send(FrameText(ping)).ok()) return;
    }
  });
}

void WatchesLongNames(Attacker& attacker) {
  const auto stub = Health::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(8 << 20, 'n'));
  OnThreads(attacker, 4, [&] {
    ClientContext context;
    const auto reader = stub->Watch(&context, request);
    grpc::health::v1::HealthCheckResponse response;
    while (reader->Read(&response)) {
    }
    const absl::Status status = reader->Finish();
    if (status.ok()) return;
    attacker.NoteRefusal();
    attacker.NoteWord(std::string(status.message()));
  });
}

void AsksForDescriptions(Attacker& attacker) {
  const auto stub = ServerReflection::NewStub(attacker.NewChannel());
  attacker.NoteConnection();
  ServerReflectionRequest request;
  request.set_file_containing_symbol("verbena.end_to_end.EndToEnd");
  std::vector<ClientContext> contexts(200);
  std::vector<std::unique_ptr<
      ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>>>
      streams;
  for (ClientContext& context : contexts) {
    context.set_timeout(attacker.left());
    streams.push_back(stub->ServerReflectionInfo(&context));
    // As many as a stream takes that nobody reads.
    for (int i = 0; i < 500; ++i) streams.back()->Write(request);
  }
  attacker.Wait();
  for (const auto& stream : streams) stream->Finish().IgnoreError();
}

constexpr auto kAttacks = std::to_array<Attack>({
    {.name = "calls",
     .text = "32 threads make small calls",
     .run = FloodsWithCalls,
     .flood = true},
    {.name = "large-calls",
     .text = "4 threads echo 4 MiB",
     .run = FloodsWithLargeCalls,
     .flood = true},
    {.name = "malformed",
     .text = "sends messages that cannot be parsed",
     .run = SendsMalformedMessages,
     .flood = true},
    {.name = "no-method",
     .text = "calls methods that are not there",
     .run = CallsWhatIsNotThere,
     .flood = true},
    {.name = "no-time",
     .text = "makes calls with deadlines of 0 and 1 us",
     .run = GivesNoTime,
     .flood = true},
    {.name = "pings",
     .text = "sends PINGs",
     .run = FloodsWithPings,
     .flood = true},
    {.name = "cancel",
     .text = "begins calls and cancels each at once",
     .run = CancelsItsCalls,
     .flood = true},
    {.name = "false-cancel",
     .text = "cancels calls that it never made",
     .run = CancelsWhatIsNotThere,
     .flood = true},
    {.name = "leave",
     .text = "leaves amid large requests",
     .run = LeavesAmidItsCalls,
     .flood = true},
    {.name = "windows",
     .text = "allows 16 streams without an end all windows",
     .run = AllowsItsStreamsEverything,
     .flood = true},
    {.name = "long-names",
     .text = "4 threads watch the health of names of 8 MiB",
     .run = WatchesLongNames,
     .flood = true},
    {.name = "reflection",
     .text = "asks for 500 descriptions in each of 200 streams, and reads none",
     .run = AsksForDescriptions,
     .flood = true},
    {.name = "stopped",
     .text = "is stopped amid 4 threads of large calls",
     .run = FloodsWithLargeCalls,
     .stopped = true},
});

}  // namespace

absl::Span<const Attack> AttacksOfCalls() { return kAttacks; }

}  // namespace verbena::hostile
