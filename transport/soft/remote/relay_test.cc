#include "transport/soft/remote/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/check.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/stream_message.h"
#include "transport/soft/link/link_driver.h"
#include "transport/soft/manual/manual_link.h"
#include "transport/soft/remote/tcp_socket.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// A TCP connection within this host.
struct TcpPair {
  TcpPair() {
    base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    base::SocketAddress address = base::SocketAddress::Loopback(AF_INET, 0);
    CHECK_EQ(::bind(listener.get(), address.get(), address.size()), 0);
    CHECK_EQ(::listen(listener.get(), 1), 0);
    address = TcpLocalAddress(listener.get());
    a = base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK_EQ(::connect(a.get(), address.get(), address.size()), 0);
    b = base::UniqueFd(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    CHECK(AdoptTcpSocket(b.get()));
  }
  base::UniqueFd a;
  base::UniqueFd b;
};

// The first word of a queue pair that is connected manually.
std::string Word(uint32_t state, uint32_t path = 0) {
  const uint64_t word = uint64_t{path} << 32 | state;
  return std::string(reinterpret_cast<const char*>(&word), sizeof(word));
}

// An extended message that tells of a state.
std::string StateMessage(uint32_t state) {
  std::array<std::byte, 64> bytes = {};
  const DdpSegment segment = {.opcode = RdmapOpcode::kExtended,
                              .last = true,
                              .queue = kExtendedQueue,
                              .sequence = 1,
                              .payload_bytes = StreamMessage::kHeadBytes};
  const size_t head = EncodeSegment(segment, bytes.data());
  bytes[head + 3] = static_cast<std::byte>(StreamMessage::Kind::kState);
  bytes[head + 11] = static_cast<std::byte>(state);
  const size_t whole =
      FpduBytes(segment.header_bytes() + segment.payload_bytes);
  const uint32_t crc = MpaCrc(bytes.data(), whole - kCrcBytes);
  std::memcpy(bytes.data() + whole - kCrcBytes, &crc, kCrcBytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), whole);
}

void SendAll(int socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
}

// Queue pairs whose links lead over TCP, as if they were on two hosts.
class RelayTest : public testing::Test {
 protected:
  // Puts a relay behind `end`, at its end `tcp` of a connection.
  void Lead(TestEnd& end, base::UniqueFd tcp) {
    auto [mine, relays] = ManualLink::CreatePair();
    ASSERT_NE(mine, nullptr);
    drivers_.push_back(Relay::Accept(
        engine_, lingering_, ForeignFd(std::move(tcp)), /*manual=*/true,
        {relays->TakeMemory(), LinkSide::kSecond, relays->TakeSocket()}));
    mine->set_driver(drivers_.back());
    mine->Start(SoftDevice::Get().engine(), *ConnectedQueuePair::From(end.qp));
    links_.push_back(std::move(mine));
  }
  void Connect(TestEnd& a, TestEnd& b) {
    TcpPair tcp;
    CHECK(AdoptTcpSocket(tcp.a.get()));
    Lead(a, std::move(tcp.a));
    Lead(b, std::move(tcp.b));
    a.Connect(b.qp->qp_num);
    b.Connect(a.qp->qp_num);
  }

  void TearDown() override {
    SoftDevice::Get().SetPortState(2, PortState::kActive);
  }

  static TestEndOptions Options(uint8_t port) {
    TestEndOptions options;
    options.port = port;
    options.timeout = 20;
    options.memory_bytes = 4 << 20;
    return options;
  }

  // Never destroyed: a relay may linger when its test is over.
  static LingeringRelays& Lingering() {
    static LingeringRelays* const relays = new LingeringRelays;
    return *relays;
  }

  // Never destroyed either: the queue pairs use their engine until they go. The
  // list shows LeakSanitizer those whose threads have ended.
  static Engine& NewEngine() {
    static auto* const engines = new std::vector<std::unique_ptr<Engine>>;
    return *engines->emplace_back(std::make_unique<Engine>());
  }

  Engine& engine_ = NewEngine();
  LingeringRelays& lingering_ = Lingering();
  TestEnd a_{Options(1)};
  TestEnd b_{Options(2)};
  std::vector<std::shared_ptr<LinkDriver>> drivers_;
  std::vector<std::unique_ptr<ManualLink>> links_;  // Destroyed first.
};

TEST_F(RelayTest, CarriesMessagesBothWays) {
  Connect(a_, b_);
  for (int i = 0; i < 20; ++i) {
    a_.Fill(0, "there");
    ASSERT_EQ(b_.Receive(1, 0, 64), 0);
    ASSERT_EQ(a_.Send(2, 0, 5), 0);
    EXPECT_EQ(b_.Wait(&a_).opcode, IBV_WC_RECV);
    EXPECT_EQ(b_.Text(0, 5), "there");
    EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
    b_.Fill(64, "back");
    ASSERT_EQ(a_.Receive(3, 64, 64), 0);
    ASSERT_EQ(b_.Send(4, 64, 4), 0);
    EXPECT_EQ(a_.Wait(&b_).opcode, IBV_WC_RECV);
    EXPECT_EQ(a_.Text(64, 4), "back");
    EXPECT_EQ(b_.Wait(&a_).status, IBV_WC_SUCCESS);
  }
}

// The message is longer than what the ring and the sockets hold.
TEST_F(RelayTest, CarriesWhatIsLongerThanAllBuffers) {
  Connect(a_, b_);
  constexpr size_t kLength = 3 << 20;
  std::string text(kLength, 'x');
  for (size_t i = 0; i < kLength; i += 11) text[i] = static_cast<char>(i >> 4);
  a_.Fill(0, text);
  ASSERT_EQ(a_.Write(1, 0, kLength, b_.Address(0), b_.mr->rkey), 0);
  EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_.Text(0, kLength), text);
  a_.Fill(0, std::string(kLength, 'y'));
  ASSERT_EQ(a_.Read(2, 0, kLength, b_.Address(0), b_.mr->rkey), 0);
  EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a_.Text(0, kLength), text);
}

TEST_F(RelayTest, RequestIsDoneWhenThePeerHasExecutedIt) {
  Connect(a_, b_);
  ASSERT_EQ(a_.Send(1, 0, 5), 0);
  EXPECT_TRUE(a_.StaysQuiet(&b_));  // No receive is posted.
  ASSERT_EQ(b_.Receive(2, 0, 64), 0);
  EXPECT_EQ(b_.Wait(&a_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
}

TEST_F(RelayTest, ADeadPortOfTheOtherHostHoldsTheRequest) {
  Connect(a_, b_);
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  SoftDevice::Get().SetPortState(2, PortState::kDown);
  ASSERT_EQ(a_.Send(2, 0, 5), 0);
  EXPECT_TRUE(b_.StaysQuiet(&a_));
  SoftDevice::Get().SetPortState(2, PortState::kActive);
  EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
}

TEST_F(RelayTest, RequestsForADeadPortOfTheOtherHostRunOutOfRetries) {
  TestEnd hasty;
  Connect(hasty, b_);
  SoftDevice::Get().SetPortState(2, PortState::kDown);
  EXPECT_EQ(hasty.Send(2, 0, 5), 0);
  EXPECT_EQ(hasty.Wait(&b_).status, IBV_WC_RETRY_EXC_ERR);
  ASSERT_EQ(hasty.To(IBV_QPS_RESET), 0);
  links_.clear();  // They borrow the queue pair, which borrowed their sockets.
}

TEST_F(RelayTest, TheOtherHostFollowsAMigration) {
  Connect(a_, b_);
  ASSERT_EQ(a_.Rearm(2), 0);
  ASSERT_EQ(b_.Rearm(1), 0);
  while (!(a_.MigrationState() == IBV_MIG_ARMED &&
           b_.MigrationState() == IBV_MIG_ARMED)) {
    a_.RunProtocol();
  }
  ASSERT_EQ(a_.SetMigrationState(IBV_MIG_MIGRATED), 0);
  for (TestEnd* end : {&a_, &b_}) {
    EXPECT_EQ(end->NextAsyncEvent(), IBV_EVENT_PATH_MIG);
  }
  EXPECT_EQ(b_.QueryPaths().port_num, 1);
}

TEST_F(RelayTest, EndOfTheConnectionEndsWhatIsOutstanding) {
  TcpPair tcp;
  Lead(a_, std::move(tcp.b));
  a_.Connect(b_.qp->qp_num);
  SendAll(tcp.a.get(), Word(kLinkOpen));
  ASSERT_EQ(a_.Send(1, 0, 5), 0);
  tcp.a.Reset();
  EXPECT_EQ(a_.Wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a_.State(), IBV_QPS_ERR);
}

// If somebody waited for the peers to read, each of them would hold up the test
// for kRelayLingerMax.
TEST_F(RelayTest, NobodyWaitsForPeersThatDoNotRead) {
  constexpr int kPeers = 100;
  std::vector<base::UniqueFd> peers;
  for (int i = 0; i < kPeers; ++i) {
    TcpPair tcp;
    constexpr int kFew = 4096;
    ::setsockopt(tcp.b.get(), SOL_SOCKET, SO_SNDBUF, &kFew, sizeof(kFew));
    ::setsockopt(tcp.a.get(), SOL_SOCKET, SO_RCVBUF, &kFew, sizeof(kFew));
    TestEnd end(Options(1));
    Lead(end, std::move(tcp.b));
    SendAll(tcp.a.get(), Word(kLinkOpen));
    end.Connect(b_.qp->qp_num);
    ASSERT_EQ(end.Write(1, 0, 1 << 20, 0, 0), 0);
    // Its word and the first bytes of its first packet are there, and more than
    // what the sockets hold behind them.
    char bytes[16];
    size_t got = 0;
    while (got < sizeof(bytes)) {
      const ssize_t more =
          ::recv(tcp.a.get(), bytes + got, sizeof(bytes) - got, MSG_DONTWAIT);
      if (more > 0) got += static_cast<size_t>(more);
      end.RunProtocol();
    }
    ASSERT_EQ(end.To(IBV_QPS_RESET), 0);
    links_.clear();
    peers.push_back(std::move(tcp.a));
  }
}

// Links whose relays have no thread any more: the queue pairs drive them.
class DrivenRelayTest : public RelayTest {
 protected:
  static TestEndOptions Sleeper() {
    TestEndOptions options = Options(1);
    options.with_channel = true;
    return options;
  }

  // Exchanges a message, after which both sides drive their links.
  void ConnectAndDrive(TestEnd& a, TestEnd& b) {
    Connect(a, b);
    ASSERT_EQ(b.Receive(1, 0, 64), 0);
    ASSERT_EQ(a.Send(2, 0, 5), 0);
    EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  }
  void EndThread() { engine_.EndThread(absl::Seconds(10)); }
  // For ends that go before the fixture: links borrow the queue pairs, which
  // borrow their sockets.
  void Part(std::initializer_list<ibv_qp*> qps) {
    for (ibv_qp* const qp : qps) {
      ibv_qp_attr reset = {};
      reset.qp_state = IBV_QPS_RESET;
      EXPECT_EQ(a_.verbs.modify_qp(qp, &reset, IBV_QP_STATE), 0);
    }
  }
};

TEST_F(DrivenRelayTest, WhoeverPollsMovesTheBytes) {
  ConnectAndDrive(a_, b_);
  EndThread();
  constexpr size_t kLength = 3 << 20;
  a_.Fill(0, std::string(kLength, 'z'));
  ASSERT_EQ(a_.Write(1, 0, kLength, b_.Address(0), b_.mr->rkey), 0);
  EXPECT_EQ(a_.Wait(&b_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_.Text(0, kLength), std::string(kLength, 'z'));
}

TEST_F(DrivenRelayTest, AThreadThatSleepsIsWokenByTheSocket) {
  TestEnd sleeper(Sleeper());
  ConnectAndDrive(a_, sleeper);
  EndThread();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sleeper.Receive(3, 0, 64), 0);
    ASSERT_EQ(ibv_req_notify_cq(sleeper.cq, 0), 0);
    ASSERT_EQ(a_.Send(4, 0, 5), 0);
    // Blocks until the message has come.
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(sleeper.verbs.get_cq_event(sleeper.channel, &cq, &context), 0);
    sleeper.verbs.ack_cq_events(cq, 1);
    ibv_wc completion;
    EXPECT_TRUE(sleeper.PollOnce(completion));
    EXPECT_EQ(completion.opcode, IBV_WC_RECV);
    EXPECT_EQ(a_.Wait(&sleeper).status, IBV_WC_SUCCESS);
  }
  Part({a_.qp, sleeper.qp});
  links_.clear();
}

// Returns the processor time that a clock of the process or thread has counted.
int64_t NanosOf(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// The engine has nothing to do for a queue pair whose program sleeps at the
// completion channel. If it were told each time, it would have more work than
// this thread.
TEST_F(DrivenRelayTest, SleepAndWakeUpOfAProgramGiveNoOtherThreadWork) {
  ConnectAndDrive(a_, b_);
  const int64_t own_before = NanosOf(CLOCK_THREAD_CPUTIME_ID);
  const int64_t all_before = NanosOf(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < 200'000; ++i) {
    drivers_[0]->Serve(/*serve=*/false, /*asleep=*/true);
    drivers_[0]->Serve(/*serve=*/false, /*asleep=*/false);
  }
  const int64_t own = NanosOf(CLOCK_THREAD_CPUTIME_ID) - own_before;
  const int64_t all = NanosOf(CLOCK_PROCESS_CPUTIME_ID) - all_before;
  EXPECT_LT(all - own, own / 2);
}

// A program that has not armed its queue asks again and again; nobody takes
// what has come, but the descriptor is not readable for ever.
TEST_F(DrivenRelayTest, AMessageThatRaisesNoEventIsTakenFromTheSocket) {
  TestEnd sleeper(Sleeper());
  ConnectAndDrive(a_, sleeper);
  ASSERT_EQ(sleeper.Receive(3, 0, 64), 0);
  ASSERT_EQ(a_.Send(4, 0, 5), 0);
  fcntl(sleeper.channel->fd, F_SETFL, O_NONBLOCK);
  pollfd readable = {.fd = sleeper.channel->fd, .events = POLLIN, .revents = 0};
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (::poll(&readable, 1, 0) == 1) {
    EXPECT_NE(sleeper.verbs.get_cq_event(sleeper.channel, &cq, &context), 0);
    EXPECT_EQ(errno, EAGAIN);
  }
  EXPECT_EQ(sleeper.Wait(&a_).opcode, IBV_WC_RECV);
  Part({a_.qp, sleeper.qp});
  links_.clear();
}

// More than a look at all sockets returns at once.
TEST_F(DrivenRelayTest, APollServesTheReadyOnesAmongManyConnections) {
  constexpr int kSpokes = 40;
  TestEndOptions options = Options(1);
  options.shared_receives = 512;
  options.completions = 1024;
  TestEnd hub(options);
  ibv_qp* const own = hub.qp;
  std::vector<std::unique_ptr<TestEnd>> spokes;
  std::vector<ibv_qp*> qps;
  for (int i = 0; i < 512; ++i) ASSERT_EQ(hub.Receive(i, 0, 64), 0);
  for (int i = 0; i < kSpokes; ++i) {
    spokes.push_back(std::make_unique<TestEnd>(Options(2)));
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = hub.cq;
    attributes.srq = hub.srq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = 16;
    attributes.cap.max_send_sge = 1;
    hub.qp = hub.verbs.create_qp(hub.pd, &attributes);
    qps.push_back(hub.qp);
    Connect(*spokes[i], hub);
    ASSERT_EQ(spokes[i]->Send(1, 0, 5), 0);
    EXPECT_EQ(hub.Wait(spokes[i].get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(spokes[i]->Wait(&hub).status, IBV_WC_SUCCESS);
  }
  EndThread();
  for (int round = 0; round < 5; ++round) {
    for (auto& spoke : spokes) ASSERT_EQ(spoke->Send(2, 0, 5), 0);
    for (int i = 0; i < kSpokes; ++i) {
      EXPECT_EQ(hub.Wait().status, IBV_WC_SUCCESS);
    }
    for (auto& spoke : spokes) {
      EXPECT_EQ(spoke->Wait(&hub).status, IBV_WC_SUCCESS);
    }
  }
  for (int i = 0; i < kSpokes; ++i) Part({qps[i], spokes[i]->qp});
  links_.clear();
  for (ibv_qp* const qp : qps) hub.verbs.destroy_qp(qp);
  hub.qp = own;
}

// If some other program has the port of another host, its first words may be
// anything.
TEST_F(RelayTest, AProgramThatIsNoDeviceIsToldFromOneThatRefuses) {
  base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::SocketAddress at = base::SocketAddress::Loopback(AF_INET, 0);
  ASSERT_EQ(::bind(listener.get(), at.get(), at.size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sockets),
            0);
  const base::UniqueFd own(sockets[0]);
  Relay::Connect(engine_, lingering_, {}, TcpLocalAddress(listener.get()),
                 std::nullopt,
                 {std::nullopt, LinkSide::kSecond, base::UniqueFd(sockets[1])});
  const base::UniqueFd server(::accept(listener.get(), nullptr, nullptr));
  const std::string answer =
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n";
  ASSERT_EQ(::send(server.get(), answer.data(), answer.size(), 0),
            static_cast<ssize_t>(answer.size()));
  pollfd readable = {.fd = own.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, 10000), 1);
  EXPECT_EQ(ReceiveCmMessage(own.get()).message.reject_reason, kForeignPort);
}

// Bytes that no correct peer sends. Each end their own connection alone.
class HostileHostTest : public RelayTest,
                        public testing::WithParamInterface<std::string> {};

TEST_P(HostileHostTest, EndsTheConnection) {
  TcpPair tcp;
  Lead(a_, std::move(tcp.b));
  a_.Connect(b_.qp->qp_num);
  SendAll(tcp.a.get(), GetParam());
  char bytes[4096];
  ssize_t got;
  do {
    got = ::recv(tcp.a.get(), bytes, sizeof(bytes), 0);
  } while (got > 0);
  EXPECT_LE(got, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, HostileHostTest,
    testing::Values(Word(kLinkNotReady), Word(7),
                    Word(kLinkOpen) + std::string(64, '\0'),
                    Word(kLinkOpen) + std::string(64, '\xff'),
                    Word(kLinkOpen) + StateMessage(kLinkNotReady),
                    Word(kLinkOpen) + StateMessage(kLinkOpen),
                    Word(kLinkClosed) + StateMessage(kLinkOpen)));

// The word itself is legal, but the migration that it tells of is not.
TEST_F(RelayTest, AMigrationThatCannotBeFailsTheQueuePair) {
  TcpPair tcp;
  Lead(a_, std::move(tcp.b));
  a_.Connect(b_.qp->qp_num);
  SendAll(tcp.a.get(), Word(kLinkOpen, /*path=*/2));
  EXPECT_EQ(a_.NextAsyncEvent(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(a_.State(), IBV_QPS_ERR);
}

}  // namespace
}  // namespace verbena::soft
