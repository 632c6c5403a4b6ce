// A relay, and what other hosts send it over TCP: a preamble and frames.

#include <sys/socket.h>

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
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"
#include "transport/soft/remote/lingering_relays.h"
#include "transport/soft/remote/network.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_protocol.h"
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
    if (Begin()) {
      while (!input_.empty()) {
        Step();
        Settle();
      }
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
  // False when the preamble is refused.
  bool Begin() {
    TcpPreamble preamble;
    const bool manual = input_.Bool();
    if (!manual) {
      preamble.purpose = TcpPurpose::kConnectionManager;
      preamble.source_port = 1;
      preamble.destination_port = 2;
    }
    if (input_.Below(8) == 0) {
      reinterpret_cast<uint8_t*>(&preamble)[input_.Below(sizeof(preamble))] =
          input_.Take<uint8_t>();
    }
    const size_t length = input_.Below(16) == 0 ? input_.Below(sizeof(preamble))
                                                : sizeof(preamble);
    ::send(tcp_.a.get(), &preamble, length, 0);
    const std::optional<TcpCaller> caller = Network::ReadPreamble(tcp_.b.get());
    if (!caller.has_value()) return false;
    int sockets[2];
    CHECK_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                     sockets),
        0);
    socket_ = base::UniqueFd(sockets[0]);
    RelayLink link = {std::nullopt, LinkSide::kFirst,
                      base::UniqueFd(sockets[1])};
    if (caller->preamble.purpose == TcpPurpose::kManual) {
      LinkMemory memory = *LinkMemory::Create();
      link.memory = *LinkMemory::Map(memory.fd());
      Attach(std::move(memory));
    }
    Relay::Accept(engine_, lingering_, ForeignFd(std::move(tcp_.b)),
                  caller->preamble, std::move(link));
    Settle();
    return true;
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
        return SendFrame();
    }
  }

  void SendRaw(absl::Span<const uint8_t> bytes) {
    ::send(tcp_.a.get(), bytes.data(), bytes.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // A frame as a relay sends it, but for what the input changes.
  void SendFrame() {
    TcpFrame frame;
    frame.kind = static_cast<TcpFrameKind>(input_.Below(6));
    frame.position = position_++;
    frame.executed = input_.Below(4);
    std::vector<uint8_t> payload;
    if (frame.kind == TcpFrameKind::kPacket) {
      payload.resize(input_.Take<uint16_t>() % (kSegmentBytes + 1));
      frame.mark =
          uint64_t{input_.Take<uint32_t>()} << 32 | input_.Take<uint16_t>();
      frame.address = input_.Take<uint64_t>();
      frame.key_and_value = input_.Take<uint64_t>();
    } else if (frame.kind == TcpFrameKind::kState) {
      frame.mark = uint64_t{input_.Take<uint32_t>()} << 32 | input_.Below(5);
    } else if (frame.kind == TcpFrameKind::kCmMessage) {
      CmMessage message = {.type = static_cast<CmMessageType>(input_.Below(8))};
      const size_t at = input_.Take<uint8_t>() % sizeof(message);
      reinterpret_cast<uint8_t*>(&message)[at] = input_.Take<uint8_t>();
      payload.resize(sizeof(message));
      std::memcpy(payload.data(), &message, sizeof(message));
    }
    frame.length = static_cast<uint32_t>(payload.size());
    if (input_.Below(16) == 0) {
      reinterpret_cast<uint8_t*>(&frame)[input_.Below(sizeof(frame))] =
          input_.Take<uint8_t>();
    }
    SendRaw({reinterpret_cast<const uint8_t*>(&frame), sizeof(frame)});
    SendRaw(payload);
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
                  {.type = static_cast<CmMessageType>(input_.Below(7))});
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
  uint32_t position_ = 0;
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
