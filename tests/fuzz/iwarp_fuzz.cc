// An iWARP stream, and what a peer sends it: its first frame, FPDUs, and bytes
// that are none.

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/mpa.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {
namespace {

using fuzz::FuzzInput;

void ParseFirstFrame(FuzzInput input) {
  const absl::Span<const uint8_t> bytes = input.Rest();
  MpaFrame frame;
  const MpaResult result = ParseMpa(
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
      bytes.size() % 2 == 0 ? MpaKind::kRequest : MpaKind::kReply, frame);
  CHECK_LE(result.needed, kMpaFrameBytesMax);
  if (result.parsed != MpaParsed::kFrame) return;
  CHECK_LE(result.needed, bytes.size());
  if (frame.user_bytes > kMpaUserBytesMax) return;
  std::byte again[kMpaFrameBytesMax];
  EncodeMpa(frame, again);
}

class IwarpFuzzer {
 public:
  explicit IwarpFuzzer(FuzzInput input)
      : input_(input),
        terms_{.crc = input_.Bool(), .extended = input_.Bool()},
        stream_(link_, terms_) {
    int sockets[2];
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                          0, sockets),
             0);
    own_ = base::UniqueFd(sockets[0]);
    peer_ = base::UniqueFd(sockets[1]);
    LinkMemory memory = *LinkMemory::Create();
    link_.Attach(*LinkMemory::Map(memory.fd()), LinkSide::kSecond, -1);
    queue_pair_.Attach(std::move(memory), LinkSide::kFirst, -1);
    std::fill(std::begin(sequences_), std::end(sequences_), 1);
  }

  void Run() {
    while (!input_.empty() && !stream_.broken() && !stream_.ended()) {
      Step();
      stream_.Receive(own_.get());
      stream_.Send(own_.get());
      StreamMessage message;
      if (input_.Bool()) stream_.TakeMessage(message);
    }
    CHECK(!stream_.broken() || !stream_.error().empty());
  }

 private:
  void Step() {
    switch (input_.Below(8)) {
      case 0:
        return Say(input_.Bytes(input_.Take<uint8_t>()));
      case 1:
        return Take();
      case 2:
        return Put();
      case 3:
        return Drain();
      default:
        return SayFpdu();
    }
  }

  void Say(absl::Span<const uint8_t> bytes) {
    ::send(peer_.get(), bytes.data(), bytes.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // Says an FPDU as a peer does, but for what the input changes.
  void SayFpdu() {
    DdpSegment segment;
    segment.opcode = static_cast<RdmapOpcode>(input_.Below(16));
    const uint8_t bits = input_.Take<uint8_t>();
    segment.tagged = segment.opcode == RdmapOpcode::kWrite ||
                     segment.opcode == RdmapOpcode::kReadResponse;
    segment.last = (bits & 1) != 0;
    segment.immediate_follows = (bits & 2) != 0;
    segment.unhurried = (bits & 4) != 0;
    segment.stag = input_.Below(4);
    segment.queue = QueueOf(segment.opcode);
    segment.sequence = sequences_[segment.queue] + ((bits & 8) != 0 ? 1 : 0);
    segment.offset = segment.last && (bits & 16) == 0 ? 0 : input_.Below(64);
    const uint32_t bytes = PayloadBytes(segment.opcode);
    segment.payload_bytes = bytes;
    if (segment.last) ++sequences_[segment.queue];
    size_t length = EncodeSegment(segment, fpdu_);
    std::memset(fpdu_ + length, 0, bytes + 8);
    input_.TakeTo(reinterpret_cast<uint8_t*>(fpdu_ + length),
                  std::min<size_t>(bytes, 64));
    length = FpduBytes(segment.header_bytes() + bytes) - kCrcBytes;
    if (input_.Below(16) == 0) {
      fpdu_[input_.Below(24)] = std::byte{input_.Take<uint8_t>()};
    }
    const uint32_t crc = input_.Below(32) == 0 ? 0 : MpaCrc(fpdu_, length);
    std::memcpy(fpdu_ + length, &crc, kCrcBytes);
    length += kCrcBytes;
    const auto* const from = reinterpret_cast<const uint8_t*>(fpdu_);
    const size_t cut = (bits & 32) != 0 ? length / 3 : length;
    Say({from, cut});
    stream_.Receive(own_.get());
    Say({from + cut, length - cut});
  }

  static uint32_t QueueOf(RdmapOpcode opcode) {
    switch (opcode) {
      case RdmapOpcode::kReadRequest:
      case RdmapOpcode::kAtomicRequest:
        return kRequestQueue;
      case RdmapOpcode::kTerminate:
        return kTerminateQueue;
      case RdmapOpcode::kAtomicResponse:
        return kAtomicResponseQueue;
      case RdmapOpcode::kExtended:
        return kExtendedQueue;
      default:
        return kSendQueue;
    }
  }

  uint32_t PayloadBytes(RdmapOpcode opcode) {
    if (const uint32_t bytes = BodyBytes(opcode); bytes != 0) return bytes;
    if (opcode == RdmapOpcode::kExtended) {
      return input_.Bool() ? StreamMessage::kBytesMax
                           : StreamMessage::kHeadBytes;
    }
    return std::min<uint32_t>(input_.Take<uint16_t>(), 65'000);
  }

  // Has the queue pair take what is in its ring.
  void Take() {
    Packet packet;
    while (queue_pair_.Peek(packet) == LinkEnd::Incoming::kPacket) {
      CHECK_LE(packet.payload_bytes, kSegmentBytes);
      fuzz::ReadAll({reinterpret_cast<const uint8_t*>(packet.payload),
                     packet.payload_bytes});
      queue_pair_.Consume(packet);
      queue_pair_.set_executed(packet.number + 1);
    }
    queue_pair_.TellProgress();
  }

  // Has the queue pair send a packet, or nonsense.
  void Put() {
    Packet packet;
    packet.kind = static_cast<PacketKind>(input_.Below(10));
    packet.flags = input_.Take<uint8_t>();
    packet.payload_bytes = packet.kind == PacketKind::kCompareSwap ||
                                   packet.kind == PacketKind::kFetchAdd
                               ? sizeof(AtomicOperands)
                               : input_.Take<uint16_t>() % (kSegmentBytes + 1);
    packet.number = input_.Below(4);
    packet.value = input_.Below(64);
    if (queue_pair_.Reserve(packet.payload_bytes) == nullptr) return;
    queue_pair_.Publish(packet);
  }

  void Drain() {
    uint8_t bytes[4096];
    while (::recv(peer_.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
  }

  FuzzInput input_;
  const IwarpStream::Terms terms_;
  LinkEnd link_;
  LinkEnd queue_pair_;
  IwarpStream stream_;
  base::UniqueFd own_;
  base::UniqueFd peer_;
  uint32_t sequences_[kUntaggedQueues];
  std::byte fpdu_[kFpduBytesMax + 64];
};

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::FuzzInput input(data, size);
  if (input.Below(8) == 0) {
    verbena::soft::ParseFirstFrame(input);
  } else {
    verbena::soft::IwarpFuzzer(input).Run();
  }
  return 0;
}
