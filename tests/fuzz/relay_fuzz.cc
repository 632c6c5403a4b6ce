// A relay, and what other hosts send it over TCP: a greeting and iWARP.

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/foreign_fd.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/mpa.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"
#include "transport/soft/remote/lingering_relays.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

using fuzz::FuzzInput;

// A TCP connection within this host, which leaves no trace when it ends.
struct TcpPair {
  TcpPair() {
    static const base::UniqueFd* const listener = [] {
      auto* const made =
          new base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      CHECK_EQ(::listen(made->get(), 4), 0);
      return made;
    }();
    const base::SocketAddress address = TcpLocalAddress(listener->get());
    a = base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // LibFuzzer's timer interrupts what waits.
    while (::connect(a.get(), address.get(), address.size()) != 0 &&
           errno != EISCONN) {
      CHECK_EQ(errno, EINTR);
    }
    while (!b.valid()) {
      b = base::UniqueFd(
          ::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    constexpr linger kReset = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(a.get(), SOL_SOCKET, SO_LINGER, &kReset, sizeof(kReset));
  }
  base::UniqueFd a;
  base::UniqueFd b;
};

class RelayFuzzer {
 public:
  RelayFuzzer(Engine& engine, FuzzInput input)
      : engine_(engine), input_(input) {}

  void Run() {
    Begin();
    while (!input_.empty()) {
      Step();
      Settle();
    }
    // Either side ends it, and it is gone when it may linger no longer.
    if (input_.Bool()) tcp_.a.Reset();
    Settle();
    if (queue_pair_.has_value()) queue_pair_->Detach();
    socket_.Reset();
    Settle();
    tcp_.a.Reset();
    Settle();
    engine_.clock().MoveTo(engine_.clock().Now() + kRelayLingerMax * 2);
    Settle();
  }

 private:
  void Begin() {
    const bool manual = input_.Bool();
    int sockets[2];
    CHECK_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                     sockets),
        0);
    socket_ = base::UniqueFd(sockets[0]);
    RelayLink link = {std::nullopt, LinkSide::kFirst,
                      base::UniqueFd(sockets[1])};
    if (manual) {
      LinkMemory memory = *LinkMemory::Create();
      link.memory = *LinkMemory::Map(memory.fd());
      Attach(std::move(memory));
    }
    CHECK(AdoptTcpSocket(tcp_.b.get()));
    Relay::Accept(engine_, lingering_, ForeignFd(std::move(tcp_.b)), manual,
                  std::move(link));
    Settle();
    if (manual) {
      const uint64_t word = input_.Below(16) == 0 ? input_.Take<uint64_t>() : 1;
      SendRaw({reinterpret_cast<const uint8_t*>(&word), sizeof(word)});
    } else {
      SendMpa();
    }
    Settle();
  }

  // The request of a connection manager, but for what the input changes.
  void SendMpa() {
    MpaFrame frame;
    frame.crc = input_.Bool();
    frame.inbound_reads = input_.Take<uint8_t>();
    frame.outbound_reads = input_.Take<uint8_t>();
    if (input_.Bool()) frame.trailer = MpaTrailer{.version = kCmVersion};
    std::array<std::byte, kMpaFrameBytesMax> bytes;
    const size_t length = EncodeMpa(frame, bytes.data());
    if (input_.Below(16) == 0) {
      bytes[input_.Below(static_cast<uint32_t>(length))] =
          static_cast<std::byte>(input_.Take<uint8_t>());
    }
    SendRaw({reinterpret_cast<const uint8_t*>(bytes.data()), length});
  }

  void Attach(LinkMemory memory) {
    queue_pair_.emplace();
    queue_pair_->Attach(std::move(memory), LinkSide::kSecond, socket_.get());
    queue_pair_->SetState(kLinkOpen);
  }

  void Step() {
    switch (input_.Below(8)) {
      case 0:
        return SendRaw(input_.Bytes(input_.Take<uint8_t>()));
      case 1:
        return BeQueuePair();
      case 2:
        return SayMessage();
      case 3:
        Drain();
        return;
      default:
        return SendSegment();
    }
  }

  void SendRaw(absl::Span<const uint8_t> bytes) {
    ::send(tcp_.a.get(), bytes.data(), bytes.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // An FPDU with a right CRC, but for what the input changes.
  void SendSegment() {
    DdpSegment segment;
    segment.opcode = static_cast<RdmapOpcode>(input_.Below(16));
    segment.tagged = segment.opcode == RdmapOpcode::kWrite ||
                     segment.opcode == RdmapOpcode::kReadResponse;
    segment.last = input_.Below(4) != 0;
    segment.immediate_follows = input_.Below(8) == 0;
    segment.stag = input_.Below(4);
    segment.offset = input_.Below(4) == 0 ? input_.Take<uint32_t>() : 0;
    segment.queue = input_.Below(6);
    segment.sequence = input_.Below(4) == 0 ? input_.Take<uint8_t>()
                                            : ++sequences_[segment.queue];
    segment.payload_bytes =
        input_.Below(8) == 0 ? input_.Take<uint16_t>() : input_.Take<uint8_t>();
    segment.payload_bytes = std::min(segment.payload_bytes, kSegmentBytes);
    std::vector<std::byte> bytes(kSegmentHeaderBytesMax +
                                 segment.payload_bytes + 8);
    EncodeSegment(segment, bytes.data());
    const size_t head = kFpduLengthBytes + segment.header_bytes();
    for (size_t i = 0; i < std::min<size_t>(segment.payload_bytes, 32); ++i) {
      bytes[head + i] = static_cast<std::byte>(input_.Take<uint8_t>());
    }
    const size_t whole =
        FpduBytes(segment.header_bytes() + segment.payload_bytes);
    const uint32_t crc = MpaCrc(bytes.data(), whole - kCrcBytes);
    std::memcpy(bytes.data() + whole - kCrcBytes, &crc, kCrcBytes);
    SendRaw({reinterpret_cast<const uint8_t*>(bytes.data()), whole});
  }

  // Has the queue pair of this process use its end of the link.
  void BeQueuePair() {
    if (!queue_pair_.has_value()) return;
    Packet packet;
    switch (input_.Below(4)) {
      case 0:
        packet.kind = PacketKind::kSend;
        packet.payload_bytes = input_.Take<uint16_t>() % (kSegmentBytes + 1);
        if (queue_pair_->Reserve(packet.payload_bytes) == nullptr) return;
        queue_pair_->Publish(packet);
        break;
      case 1:
        while (queue_pair_->Peek(packet) == LinkEnd::Incoming::kPacket) {
          fuzz::ReadAll({reinterpret_cast<const uint8_t*>(packet.payload),
                         packet.payload_bytes});
          queue_pair_->Consume(packet);
        }
        break;
      case 2:
        queue_pair_->set_executed(input_.Below(16));
        queue_pair_->TellProgress();
        break;
      default:
        queue_pair_->SetState(static_cast<LinkState>(input_.Below(4)));
    }
    queue_pair_->RingAlways();
  }

  // Has the connection manager of this process use the socket.
  void SayMessage() {
    while (true) {
      CmReceived received = ReceiveCmMessage(socket_.get());
      if (received.kind == CmReceived::Kind::kNothing ||
          received.kind == CmReceived::Kind::kEnd) {
        break;
      }
      if (!received.fd.valid() || queue_pair_.has_value()) continue;
      absl::StatusOr<LinkMemory> memory = LinkMemory::Map(received.fd.get());
      CHECK(memory.ok()) << memory.status().ToString();
      Attach(*std::move(memory));
    }
    SendCmMessage(socket_.get(),
                  {.type = static_cast<CmMessageType>(input_.Below(6))});
  }

  void Drain() {
    uint8_t bytes[4096];
    while (::recv(tcp_.a.get(), bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
  }

  void Settle() {
    for (int i = 0; i < 20 && engine_.RunOnce(); ++i) {
    }
  }

  Engine& engine_;
  FuzzInput input_;
  LingeringRelays lingering_;
  TcpPair tcp_;
  base::UniqueFd socket_;  // The queue pair's end.
  std::optional<LinkEnd> queue_pair_;
  std::array<uint32_t, 6> sequences_ = {};
};

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using verbena::soft::Clock;
  using verbena::soft::Engine;
  static auto& engine = *new Engine(Clock::Kind::kManual);
  verbena::soft::RelayFuzzer(engine, {data, size}).Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
