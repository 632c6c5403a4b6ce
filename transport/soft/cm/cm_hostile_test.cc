// Peers that are not ours: anybody on the host may open the sockets.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/base/other_user.h"
#include "transport/soft/cm/cm_test_end.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;

// Holds up the device's thread as long as it lives. So a sender can close its
// own handle of a descriptor that it sends before the device reads the message:
// then the device's handle is the last.
class HeldUpDevice {
 public:
  HeldUpDevice() {
    const auto holds = std::make_shared<std::promise<void>>();
    SoftDevice::Get().engine().Post(
        [holds, released = released_.get_future().share()] {
          holds->set_value();
          released.wait();
        });
    holds->get_future().wait();
  }
  HeldUpDevice(const HeldUpDevice&) = delete;
  HeldUpDevice& operator=(const HeldUpDevice&) = delete;
  ~HeldUpDevice() { released_.set_value(); }

 private:
  std::promise<void> released_;
};

class CmHostileTest : public testing::Test {
 protected:
  // A socket connected to `address`, with no name.
  static base::UniqueFd Intrude(const SocketAddress& address) {
    base::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(ConnectSocket(address, PeerUsers(), socket), 0);
    return socket;
  }

  // A socket connected to `address`, with the name of a correct client.
  static base::UniqueFd IntrudeNamed(const SocketAddress& address) {
    SocketAddress from = SocketAddress::Loopback(AF_INET, 0);
    base::UniqueFd socket;
    EXPECT_EQ(OpenBoundSocket(from, BindPurpose::kConnect, socket), 0);
    EXPECT_EQ(ConnectSocket(address, PeerUsers(), socket), 0);
    return socket;
  }

  // A descriptor that is slow to close, and its peer: a socket that has more to
  // send than the peer takes, and is to wait for that when it is closed.
  static std::array<base::UniqueFd, 2> SlowToClose() {
    const base::UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SocketAddress at = SocketAddress::Loopback(AF_INET, 0);
    EXPECT_EQ(::bind(tcp.get(), at.get(), at.size()), 0);
    EXPECT_EQ(::listen(tcp.get(), 1), 0);
    at = TcpLocalAddress(tcp.get());
    base::UniqueFd full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(full.get(), at.get(), at.size()), 0);
    const std::string bytes(1 << 16, 'x');
    while (::send(full.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    constexpr linger kLong = {.l_onoff = 1, .l_linger = 3600};
    EXPECT_EQ(
        ::setsockopt(full.get(), SOL_SOCKET, SO_LINGER, &kLong, sizeof(kLong)),
        0);
    return {std::move(full),
            base::UniqueFd(::accept(tcp.get(), nullptr, nullptr))};
  }

  // Sends `bytes` once there is room.
  static void SendBytes(const base::UniqueFd& socket, absl::string_view bytes) {
    pollfd descriptor = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    EXPECT_EQ(::poll(&descriptor, 1, 10000), 1);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  static CmMessage CorrectRequest(const SocketAddress& address) {
    CmMessage request = {.type = CmMessageType::kConnectRequest,
                         .retry_count = 7,
                         .rnr_retry_count = 7,
                         .qp_num = 77};
    request.SetDestination(address);
    return request;
  }

  // Returns the next message of the other side that is no doorbell, or kNothing
  // after ten seconds of silence.
  static CmReceived Hear(const base::UniqueFd& socket) {
    pollfd descriptor = {.fd = socket.get(), .events = POLLIN, .revents = 0};
    while (::poll(&descriptor, 1, 10000) == 1) {
      CmReceived received = ReceiveCmMessage(socket.get());
      if (received.kind != CmReceived::Kind::kDoorbell) return received;
    }
    return CmReceived();
  }

  static bool IsClosed(const base::UniqueFd& socket) {
    return Hear(socket).kind == CmReceived::Kind::kEnd;
  }

  // The server serves a correct client as if nothing had happened.
  void ExpectStillServing() {
    CmTestEnd client;
    client.Dial(address_, "still there?");
    EXPECT_EQ(CmTestEnd::Data(server_.TakeRequest()), "still there?");
    EXPECT_TRUE(server_.Accept("yes").ok());
    EXPECT_EQ(CmTestEnd::Data(client.Expect(RDMA_CM_EVENT_ESTABLISHED)), "yes");
    server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
    client.Hangup();
    server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
    server_.Hangup();
    server_.ExpectNothing();
  }

  // Opens a listening socket that belongs to no connection manager.
  static base::UniqueFd BadServer(SocketAddress& address) {
    address = SocketAddress::Loopback(AF_INET, 0);
    base::UniqueFd socket;
    EXPECT_EQ(OpenBoundSocket(address, BindPurpose::kListen, socket), 0);
    EXPECT_EQ(::listen(socket.get(), 1), 0);
    return socket;
  }

  static base::UniqueFd AcceptFrom(const base::UniqueFd& listener) {
    pollfd descriptor = {.fd = listener.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&descriptor, 1, 10000), 1);
    return base::UniqueFd(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  CmTestEnd server_;
  SocketAddress address_ = server_.Listen("127.0.0.1:0");
};

TEST_F(CmHostileTest, GarbageToAListenerClosesOnlyItsOwnSocket) {
  for (const std::string& bytes :
       {std::string("x"), std::string(sizeof(CmMessage), 'x'),
        std::string(100000, 'x'), std::string(1, static_cast<char>(kDoorbell)),
        std::string(sizeof(CmMessage), '\0')}) {
    const base::UniqueFd intruder = IntrudeNamed(address_);
    SendBytes(intruder, bytes);
    EXPECT_TRUE(IsClosed(intruder)) << bytes.size();
  }
  ExpectStillServing();
}

TEST_F(CmHostileTest, ARequestWithoutANameIsNotTaken) {
  const base::UniqueFd intruder = Intrude(address_);
  const LinkMemory memory = *LinkMemory::Create();
  SendCmMessage(intruder.get(), CorrectRequest(address_), memory.fd());
  EXPECT_TRUE(IsClosed(intruder));
  ExpectStillServing();
}

TEST_F(CmHostileTest, ARequestWithoutProperMemoryIsNotTaken) {
  const base::UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  const base::UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
  for (const int fd : {-1, event.get(), unsealed.get()}) {
    const base::UniqueFd intruder = IntrudeNamed(address_);
    SendCmMessage(intruder.get(), CorrectRequest(address_), fd);
    EXPECT_TRUE(IsClosed(intruder));
  }
  ExpectStillServing();
}

TEST_F(CmHostileTest, ARequestThatMakesNoSenseIsNotTaken) {
  const LinkMemory memory = *LinkMemory::Create();
  CmMessage other_port = CorrectRequest(address_);
  ++other_port.destination_port;
  CmMessage other_family = CorrectRequest(address_);
  other_family.destination_family = AF_INET6;
  CmMessage no_family = CorrectRequest(address_);
  no_family.destination_family = 12345;
  CmMessage no_request = CorrectRequest(address_);
  no_request.type = CmMessageType::kReadyToUse;
  CmMessage no_queue_pair = CorrectRequest(address_);
  no_queue_pair.qp_num = 1 << 24;
  for (const CmMessage& request :
       {other_port, other_family, no_family, no_request, no_queue_pair}) {
    const base::UniqueFd intruder = IntrudeNamed(address_);
    SendCmMessage(intruder.get(), request, memory.fd());
    EXPECT_TRUE(IsClosed(intruder));
  }
  ExpectStillServing();
}

TEST_F(CmHostileTest, WhoeverTakesANameThatIsNotOfThisHostIsNotTaken) {
  SocketAddress elsewhere = *SocketAddress::ParseNumeric("203.0.113.9:4444");
  base::UniqueFd intruder;
  ASSERT_EQ(OpenBoundSocket(elsewhere, BindPurpose::kConnect, intruder), 0);
  ASSERT_EQ(ConnectSocket(address_, PeerUsers(), intruder), 0);
  const LinkMemory memory = *LinkMemory::Create();
  SendCmMessage(intruder.get(), CorrectRequest(address_), memory.fd());
  EXPECT_TRUE(IsClosed(intruder));
  ExpectStillServing();
}

TEST_F(CmHostileTest, AnotherUserIsToldThatHeIsRefused) {
  if (!CanBeOtherUser()) GTEST_SKIP() << "only root can be another user";
  base::UniqueFd intruder;
  {
    const OtherUser other_user;
    intruder = IntrudeNamed(address_);
  }
  const CmReceived refusal = Hear(intruder);
  EXPECT_EQ(refusal.message.type, CmMessageType::kReject);
  EXPECT_EQ(refusal.message.reject_reason, kOtherUser);
  EXPECT_TRUE(IsClosed(intruder));
  ExpectStillServing();
}

TEST_F(CmHostileTest, AServerOfAnotherUserIsNotBelieved) {
  if (!CanBeOtherUser()) GTEST_SKIP() << "only root can be another user";
  SocketAddress address = SocketAddress::Loopback(AF_INET, 0);
  base::UniqueFd listener;
  ASSERT_EQ(OpenBoundSocket(address, BindPurpose::kListen, listener), 0);
  {
    const OtherUser other_user;
    ASSERT_EQ(::listen(listener.get(), 1), 0);
  }
  CmTestEnd client;
  client.Dial(address);
  EXPECT_EQ(client.Expect(RDMA_CM_EVENT_REJECTED).status, kOtherUser);
}

// The descriptor is sent to a listener that has not asked for any.
TEST_F(CmHostileTest, ADescriptorThatIsSlowToCloseHoldsUpNobody) {
  for (const CmMessageType type :
       {CmMessageType::kConnectRequest, CmMessageType::kDisconnect}) {
    auto [slow, peer] = SlowToClose();
    const base::UniqueFd intruder = IntrudeNamed(address_);
    {
      const HeldUpDevice held_up;
      SendCmMessage(intruder.get(), {.type = type}, slow.get());
      slow.Reset();
    }
    EXPECT_TRUE(IsClosed(intruder));
  }
  ExpectStillServing();
}

// The slow descriptor lies in a socket that is passed, where nobody can tell
// that it is slow, and which may be closed with what is in it unread.
TEST_F(CmHostileTest, ADescriptorWithinADescriptorHoldsUpNobody) {
  const base::UniqueFd intruder = IntrudeNamed(address_);
  std::vector<base::UniqueFd> peers;
  {
    const HeldUpDevice held_up;
    for (const CmMessageType type :
         {CmMessageType::kConnectRequest, CmMessageType::kReadyToUse}) {
      auto [slow, peer] = SlowToClose();
      peers.push_back(std::move(peer));
      int sockets[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
      const base::UniqueFd outer(sockets[0]);
      const base::UniqueFd inner(sockets[1]);
      SendCmMessage(inner.get(), CmMessage(), slow.get());
      SendCmMessage(intruder.get(), {.type = type}, outer.get());
    }
  }
  EXPECT_TRUE(IsClosed(intruder));
  ExpectStillServing();
}

TEST_F(CmHostileTest, ManyWhoSaySilentDoNotKeepOthersOut) {
  std::vector<base::UniqueFd> intruders(200);
  for (base::UniqueFd& intruder : intruders) intruder = Intrude(address_);
  ExpectStillServing();
  // The first ones have had to make room, long before their time was over.
  EXPECT_TRUE(IsClosed(intruders.front()));
}

TEST_F(CmHostileTest, NumbersBeyondTheDeviceAreCutToIt) {
  const base::UniqueFd intruder = IntrudeNamed(address_);
  const LinkMemory memory = *LinkMemory::Create();
  CmMessage request = CorrectRequest(address_);
  request.responder_resources = 255;
  request.initiator_depth = 255;
  request.retry_count = 255;
  request.rnr_retry_count = 255;
  SendCmMessage(intruder.get(), request, memory.fd());
  const transport::CmEvent event = server_.TakeRequest();
  EXPECT_EQ(event.responder_resources, 255);
  rdma_conn_param* defaults = nullptr;
  EXPECT_EQ(TestProvider().cm.accept(server_.id().get(), defaults), 0);
  EXPECT_EQ(server_.QpState(), IBV_QPS_RTS);
  const CmReceived reply = Hear(intruder);
  EXPECT_EQ(reply.message.type, CmMessageType::kConnectReply);
  EXPECT_LE(reply.message.responder_resources, 16);
  SendCmMessage(intruder.get(), {.type = CmMessageType::kReadyToUse});
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(CmHostileTest, GarbageOnAnEstablishedConnectionEndsIt) {
  for (const std::string& bytes :
       {std::string("x"), std::string(sizeof(CmMessage), 'x'),
        std::string(100000, 'x')}) {
    const base::UniqueFd intruder = IntrudeNamed(address_);
    const LinkMemory memory = *LinkMemory::Create();
    SendCmMessage(intruder.get(), CorrectRequest(address_), memory.fd());
    server_.TakeRequest();
    server_.PostReceive();
    EXPECT_TRUE(server_.Accept("").ok());
    SendCmMessage(intruder.get(), {.type = CmMessageType::kReadyToUse});
    server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
    SendBytes(intruder, bytes);
    server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(server_.Complete(), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(Hear(intruder).kind, CmReceived::Kind::kMessage);  // The reply.
    EXPECT_TRUE(IsClosed(intruder));
  }
  ExpectStillServing();
}

TEST_F(CmHostileTest, MessagesOutOfOrderEndTheConnection) {
  for (const CmMessageType type :
       {CmMessageType::kConnectRequest, CmMessageType::kConnectReply,
        CmMessageType::kDisconnect}) {
    const base::UniqueFd intruder = IntrudeNamed(address_);
    const LinkMemory memory = *LinkMemory::Create();
    SendCmMessage(intruder.get(), CorrectRequest(address_), memory.fd());
    server_.TakeRequest();
    EXPECT_TRUE(server_.Accept("").ok());
    SendCmMessage(intruder.get(), {.type = type});
    server_.Expect(RDMA_CM_EVENT_UNREACHABLE);
  }
  ExpectStillServing();
}

TEST_F(CmHostileTest, AFloodOfDoorbellsIsOnlyNoise) {
  const base::UniqueFd intruder = IntrudeNamed(address_);
  const LinkMemory memory = *LinkMemory::Create();
  SendCmMessage(intruder.get(), CorrectRequest(address_), memory.fd());
  server_.TakeRequest();
  EXPECT_TRUE(server_.Accept("").ok());
  SendCmMessage(intruder.get(), {.type = CmMessageType::kReadyToUse});
  server_.Expect(RDMA_CM_EVENT_ESTABLISHED);
  const std::string doorbell(1, static_cast<char>(kDoorbell));
  for (int i = 0; i < 20000; ++i) SendBytes(intruder, doorbell);
  const CmMessage disconnect = {.type = CmMessageType::kDisconnect};
  SendBytes(intruder,
            absl::string_view(reinterpret_cast<const char*>(&disconnect),
                              sizeof(disconnect)));
  server_.Expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(CmHostileTest, AServerThatIsSlowToAcceptIsTriedAgain) {
  SocketAddress address;
  const base::UniqueFd listener = BadServer(address);
  std::array<CmTestEnd, 4> clients;
  for (CmTestEnd& client : clients) client.Dial(address);
  // These are more clients than the queue holds; those that found no room come
  // as soon as there is some.
  std::vector<base::UniqueFd> sockets;
  for (size_t i = 0; i < clients.size(); ++i) {
    sockets.push_back(AcceptFrom(listener));
    EXPECT_EQ(Hear(sockets.back()).message.type,
              CmMessageType::kConnectRequest);
  }
}

TEST_F(CmHostileTest, AServerThatAnswersGarbageRejects) {
  SocketAddress address;
  const base::UniqueFd listener = BadServer(address);
  CmTestEnd client;
  client.Dial(address);
  const base::UniqueFd socket = AcceptFrom(listener);
  SendBytes(socket, "HTTP/1.1 400 Bad Request");
  client.Expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(client.QpState(), IBV_QPS_ERR);
}

TEST_F(CmHostileTest, AServerThatAnswersBoldNumbersGetsAConnectionToNobody) {
  SocketAddress address;
  const base::UniqueFd listener = BadServer(address);
  CmTestEnd client;
  client.Dial(address);
  const base::UniqueFd socket = AcceptFrom(listener);
  CmMessage reply = {.type = CmMessageType::kConnectReply,
                     .responder_resources = 255,
                     .initiator_depth = 255,
                     .rnr_retry_count = 255,
                     .qp_num = 77};
  SendCmMessage(socket.get(), reply);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  SendCmMessage(socket.get(), reply);
  client.Expect(RDMA_CM_EVENT_DISCONNECTED);
}

}  // namespace
}  // namespace verbena::soft
