// The connection manager to a peer of another kind: it speaks MPA and iWARP,
// and nothing else. The test plays it.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/cm/cm_test_end.h"
#include "transport/soft/cm/network_of_own.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/mpa.h"

namespace verbena::soft {
namespace {

// Longer than a message takes that is not held back.
constexpr int kMoment = 100;
constexpr int kPatience = 10'000;

class PlainPeer {
 public:
  // Connects to a listener and asks for a connection.
  void Call(uint16_t port, bool of_peers = false) {
    socket_ = base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const base::SocketAddress to = OtherHost(port);
    CHECK_EQ(::connect(socket_.get(), to.get(), to.size()), 0);
    SayMpa(MpaKind::kRequest, of_peers);
  }

  // Listens, so that OtherHost() with the port that this returns is the peer.
  uint16_t Listen() {
    listener_ =
        base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    base::SocketAddress at = *base::SocketAddress::ParseNumeric("0.0.0.0:0");
    CHECK_EQ(::bind(listener_.get(), at.get(), at.size()), 0);
    CHECK_EQ(::listen(listener_.get(), 1), 0);
    sockaddr_in name = {};
    socklen_t length = sizeof(name);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &length);
    return ntohs(name.sin_port);
  }
  void Accept() {
    socket_ = base::UniqueFd(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    HearMpa(MpaKind::kRequest);
    SayMpa(MpaKind::kReply);
  }

  MpaFrame HearMpa(MpaKind kind) {
    MpaFrame frame;
    std::vector<std::byte> bytes;
    while (true) {
      const MpaResult result = ParseMpa(bytes, kind, frame);
      if (result.parsed != MpaParsed::kIncomplete) {
        EXPECT_EQ(result.parsed, MpaParsed::kFrame) << result.error;
        return frame;
      }
      const size_t before = bytes.size();
      bytes.resize(result.needed);
      Hear(bytes.data() + before, bytes.size() - before);
    }
  }

  void Write(const DdpSegment& segment) {
    std::array<std::byte, 64> bytes = {};
    EncodeSegment(segment, bytes.data());
    const size_t whole = FpduBytes(segment.header_bytes());
    const uint32_t crc = MpaCrc(bytes.data(), whole - kCrcBytes);
    std::memcpy(bytes.data() + whole - kCrcBytes, &crc, kCrcBytes);
    Say(bytes.data(), whole);
  }

  bool HearsSomethingWithin(int milliseconds) {
    pollfd readable = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, milliseconds) == 1;
  }
  // Hears an FPDU without looking at its payload.
  DdpSegment HearSegment() {
    std::vector<std::byte> bytes(kFpduLengthBytes);
    Hear(bytes.data(), bytes.size());
    bytes.resize(FpduBytes(LoadBig16(bytes.data())));
    Hear(bytes.data() + kFpduLengthBytes, bytes.size() - kFpduLengthBytes);
    DdpSegment segment;
    EXPECT_EQ(ParseSegment(bytes.data(), bytes.size(), segment), nullptr);
    return segment;
  }

 private:
  void SayMpa(MpaKind kind, bool of_peers = false) {
    MpaFrame frame;
    frame.kind = kind;
    frame.peer_to_peer = frame.first_write = frame.first_read = of_peers;
    frame.inbound_reads = frame.outbound_reads = 2;
    std::array<std::byte, kMpaFrameBytesMax> bytes;
    Say(bytes.data(), EncodeMpa(frame, bytes.data()));
  }
  void Say(const std::byte* bytes, size_t count) {
    EXPECT_EQ(::send(socket_.get(), bytes, count, MSG_NOSIGNAL),
              static_cast<ssize_t>(count));
  }
  void Hear(std::byte* to, size_t count) {
    while (count != 0 && HearsSomethingWithin(kPatience)) {
      const ssize_t got = ::recv(socket_.get(), to, count, 0);
      ASSERT_GT(got, 0);
      to += got;
      count -= static_cast<size_t>(got);
    }
    EXPECT_EQ(count, 0u) << "the device is silent";
  }

  base::UniqueFd listener_;
  base::UniqueFd socket_;
};

class CmPlainPeerTest : public testing::Test {
 protected:
  MpaFrame CallAndAccept(bool of_peers = false) {
    peer.Call(own.Listen("0.0.0.0:0").port(), of_peers);
    own.TakeRequest();
    own.ExpectOk(own.Accept(""));
    own.Expect(RDMA_CM_EVENT_ESTABLISHED);
    MpaFrame reply = peer.HearMpa(MpaKind::kReply);
    EXPECT_FALSE(reply.trailer.has_value());
    return reply;
  }

  CmTestEnd own;
  PlainPeer peer;
};

// A caller such as siw ends the connection if bytes come behind the reply.
TEST_F(CmPlainPeerTest, TheSideThatWasCalledIsSilentUntilTheCallerHasSpoken) {
  CallAndAccept();
  own.Send("early");
  EXPECT_FALSE(peer.HearsSomethingWithin(kMoment));
  peer.Write({.opcode = RdmapOpcode::kWrite, .tagged = true, .last = true});
  EXPECT_EQ(peer.HearSegment().payload_bytes, 5u);
  EXPECT_EQ(own.Complete(), IBV_WC_SUCCESS);
}

// NICs ask for that. Nobody has permitted them to write.
TEST_F(CmPlainPeerTest, ACallerMayBeginWithAWriteOfNothing) {
  const MpaFrame reply = CallAndAccept(/*of_peers=*/true);
  EXPECT_TRUE(reply.peer_to_peer && reply.first_write);
  EXPECT_FALSE(reply.first_read || reply.first_send);
  peer.Write({.opcode = RdmapOpcode::kWrite,
              .tagged = true,
              .last = true,
              .stag = 0x12345678});
  own.Send("ready");
  EXPECT_EQ(peer.HearSegment().payload_bytes, 5u);
}

// The peer says nothing that could wake it.
TEST_F(CmPlainPeerTest, ASleeperIsWokenWhenItsRequestHasGone) {
  own.Resolve(OtherHost(peer.Listen()));
  own.ExpectOk(own.Connect(""));
  peer.Accept();
  own.Expect(RDMA_CM_EVENT_ESTABLISHED);
  for (int i = 0; i < 3; ++i) {
    own.Arm();
    own.Send("one way");
    EXPECT_EQ(own.CompleteAsleep(), IBV_WC_SUCCESS);
    EXPECT_EQ(peer.HearSegment().payload_bytes, 7u);
  }
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  return RUN_ALL_TESTS();
}
