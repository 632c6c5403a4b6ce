// A peer that writes whatever it likes into the link: the queue pair fails, and
// nothing else happens.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// A queue pair of ours, and the raw link of a peer that the test plays.
class HostilePeerTest : public testing::Test {
 protected:
  HostilePeerTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    absl::StatusOr<LinkMemory> theirs = LinkMemory::Map(ours.fd());
    EXPECT_TRUE(theirs.ok());
    peer.Attach(*std::move(theirs), LinkSide::kSecond, sockets[1]);
    absl::StatusOr<LinkMemory> mine = LinkMemory::Map(ours.fd());
    ConnectedQueuePair::From(end.qp)->AttachLink(*std::move(mine),
                                                 LinkSide::kFirst, sockets[0]);
    peer.SetState(kLinkOpen);
    end.Connect(4711);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(end.Receive(i, 0, 64), 0);
  }
  ~HostilePeerTest() override {
    ConnectedQueuePair::From(end.qp)->DetachLink();
    close(sockets[0]);
    close(sockets[1]);
  }

  // Sends a packet as a peer would, with any contents.
  void Packet(PacketKind kind, uint8_t flags, uint32_t number,
              uint32_t payload_bytes = 0, uint32_t value = 0) {
    std::byte* payload = peer.Reserve(payload_bytes);
    ASSERT_NE(payload, nullptr);
    std::memset(payload, 0x5a, payload_bytes);
    soft::Packet packet;
    packet.kind = kind;
    packet.flags = flags;
    packet.number = number;
    packet.payload_bytes = payload_bytes;
    packet.value = value;
    packet.rkey = end.mr->rkey;
    packet.address = end.Address(0);
    peer.Publish(packet);
  }

  // A first packet with any contents of this word.
  void FirstPacket(uint64_t kind_and_number) {
    auto& header =
        *reinterpret_cast<PacketHeader*>(ours.ring(LinkSide::kSecond));
    header.kind_and_number = kind_and_number;
    header.stamp = ours.secret();
  }

  void Run() {
    for (int i = 0; i < 100; ++i) end.RunProtocol();
  }
  // Whether the queue pair enters the error state. It does so at the next poll,
  // or, when the engine is at it, soon.
  bool Fails() {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (end.State() != IBV_QPS_ERR) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      end.RunProtocol();
    }
    return true;
  }

  static constexpr uint8_t kWhole = kPacketFirst | kPacketLast;

  LinkMemory ours = *LinkMemory::Create();
  int sockets[2];
  TestEnd end;
  LinkEnd peer;
};

TEST_F(HostilePeerTest, ACorrectPeerIsServed) {
  Packet(PacketKind::kSend, kWhole, 0, 8);
  EXPECT_EQ(end.Wait().byte_len, 8u);
  Packet(PacketKind::kRead, kWhole, 1, 0, 64);
  Run();
  EXPECT_EQ(end.State(), IBV_QPS_RTS);
}

TEST_F(HostilePeerTest, APayloadBeyondTheSegmentIsNotRead) {
  FirstPacket(uint64_t{0xffff} << 16 | uint64_t{kWhole} << 8 | 1);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnUnknownKindFails) {
  FirstPacket(uint64_t{kWhole} << 8 | 200);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ARequestOutOfTurnFails) {
  Packet(PacketKind::kSend, kWhole, 1, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AMiddleWithoutABeginningFails) {
  Packet(PacketKind::kSend, kPacketLast, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ABeginningWithinAMessageFails) {
  Packet(PacketKind::kSend, kPacketFirst, 0, 8);
  Packet(PacketKind::kSend, kPacketFirst, 0, 8);
  EXPECT_TRUE(Fails());
  ibv_wc completion = end.Wait();  // The receive that was being filled.
  EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(completion.wr_id, 0u);
}

TEST_F(HostilePeerTest, AMessageThatChangesItsKindFails) {
  Packet(PacketKind::kSend, kPacketFirst, 0, 8);
  Packet(PacketKind::kWrite, kPacketLast, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AWriteLongerThanAnnouncedFails) {
  Packet(PacketKind::kWrite, kPacketFirst, 0, 64, 100);
  Packet(PacketKind::kWrite, kPacketLast, 0, 64);
  EXPECT_TRUE(Fails());
  EXPECT_EQ(end.memory[100], std::byte{0});
}

TEST_F(HostilePeerTest, AWriteShorterThanAnnouncedFails) {
  Packet(PacketKind::kWrite, kWhole, 0, 64, 100);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AWriteOfUnknownLengthIsPlaced) {
  Packet(PacketKind::kWrite, kPacketFirst, 0, 64, kUnknownLength);
  Packet(PacketKind::kWrite, 0, 0, 64);
  Packet(PacketKind::kWrite, kPacketLast, 0, 8);
  Packet(PacketKind::kSend, kWhole, 1, 8);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.memory[135], std::byte{0x5a});
  EXPECT_EQ(end.memory[136], std::byte{0});
  EXPECT_EQ(end.State(), IBV_QPS_RTS);
}

TEST_F(HostilePeerTest, AWriteOfUnknownLengthEndsWhereItsMemoryDoes) {
  const auto bytes = static_cast<uint32_t>(end.mr->length);
  Packet(PacketKind::kWrite, kPacketFirst, 0, kSegmentBytes, kUnknownLength);
  for (uint32_t i = kSegmentBytes; i <= bytes && i < 8 * kSegmentBytes;
       i += kSegmentBytes) {
    Packet(PacketKind::kWrite, 0, 0, kSegmentBytes);
    Run();
  }
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AReadWithPayloadFails) {
  Packet(PacketKind::kRead, kWhole, 0, 64, 100);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnAtomicWithoutItsOperandsFails) {
  Packet(PacketKind::kFetchAdd, kWhole, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnAtomicInPartsFails) {
  Packet(PacketKind::kCompareSwap, kPacketFirst, 0, 16);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnAtomicThatFindsNoReceiverFails) {
  ASSERT_EQ(end.FetchAdd(1, 0, 0, 0, 1), 0);
  Packet(PacketKind::kNak, kWhole, 0, 0, 1);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ACountWithPayloadFails) {
  Packet(PacketKind::kCount, kWhole, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ASendInvalidatesNothingThatIsNoWindowOfOurs) {
  Packet(PacketKind::kSend, kWhole | kPacketInvalidate, 0, 8, end.mr->rkey);
  EXPECT_EQ(end.Wait().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_TRUE(Fails());
  EXPECT_EQ(end.verbs.dereg_mr(end.mr), 0) << "it is still there";
  end.mr = nullptr;
}

TEST_F(HostilePeerTest, AnAnswerThatNobodyAskedForFails) {
  Packet(PacketKind::kReadResponse, kWhole, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnAnswerLongerThanAskedForFails) {
  ASSERT_EQ(end.Read(9, 0, 16, 0, 0), 0);
  Packet(PacketKind::kReadResponse, kWhole, 0, 32);
  Run();
  EXPECT_EQ(end.Wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(end.memory[16], std::byte{0});
}

TEST_F(HostilePeerTest, AnAnswerThatEndsEarlyFails) {
  ASSERT_EQ(end.Read(9, 0, 16, 0, 0), 0);
  Packet(PacketKind::kReadResponse, kWhole, 0, 8);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ARefusalOfWhatWasNotSentFails) {
  Packet(PacketKind::kNak, kWhole, 0, 0, 3);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, ARefusalForNoKnownReasonFails) {
  ASSERT_EQ(end.Send(1, 0, 8), 0);
  Packet(PacketKind::kNak, kWhole, 0, 0, 99);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AReadThatFindsNoReceiverFails) {
  ASSERT_EQ(end.Read(1, 0, 8, 0, 0), 0);
  Packet(PacketKind::kNak, kWhole, 0, 0, 1);
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, AnAcknowledgementOfWhatWasNotSentFails) {
  ASSERT_EQ(end.Send(1, 0, 8), 0);
  ours.words(LinkSide::kSecond).progress = uint64_t{2} << 32;
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, RoomThatWasNotTakenFails) {
  ASSERT_EQ(end.Send(1, 0, 8), 0);
  ours.words(LinkSide::kSecond).progress = 1000;
  EXPECT_TRUE(Fails());
}

TEST_F(HostilePeerTest, NonsenseInTheSleepAndStateWordsIsHarmless) {
  ours.words(LinkSide::kSecond).sleep = 0xffffffff;
  ours.words(LinkSide::kSecond).state = 0xffffffff;
  ours.words(LinkSide::kSecond).fences = 0xffffffff;
  ours.words(LinkSide::kFirst).sleep = 0xffffffff;
  ours.words(LinkSide::kFirst).progress = 0xffffffffffffffff;
  Packet(PacketKind::kSend, kWhole, 0, 8);
  EXPECT_EQ(end.Wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(end.Send(1, 0, 8), 0);
  EXPECT_EQ(end.Wait().status, IBV_WC_RETRY_EXC_ERR);  // Not open: closed.
}

TEST_F(HostilePeerTest, AnEndlessMessageIsCutOff) {
  Packet(PacketKind::kSend, kPacketFirst, 0, kSegmentBytes);
  EXPECT_EQ(end.Wait().status, IBV_WC_LOC_LEN_ERR);
}

}  // namespace
}  // namespace verbena::soft
