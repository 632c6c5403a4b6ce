#include "transport/soft/link/link_end.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {
namespace {

class LinkEndTest : public testing::Test {
 protected:
  LinkEndTest() {
    absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
    EXPECT_TRUE(memory.ok()) << memory.status();
    absl::StatusOr<LinkMemory> same = LinkMemory::Map(memory->fd());
    EXPECT_TRUE(same.ok()) << same.status();
    sender_.Attach(*std::move(memory), LinkSide::kFirst, /*socket_fd=*/-1);
    receiver_.Attach(*std::move(same), LinkSide::kSecond, /*socket_fd=*/-1);
  }

  // Sends a packet of so many bytes that ends in the low bytes of `tail`.
  void Send(uint32_t number, uint32_t bytes, uint64_t tail) {
    std::byte* const payload = sender_.Reserve(bytes);
    ASSERT_NE(payload, nullptr);
    std::memcpy(payload + bytes - sizeof(tail), &tail, sizeof(tail));
    Packet packet;
    packet.kind = PacketKind::kSend;
    packet.payload_bytes = bytes;
    packet.number = number;
    sender_.Publish(packet);
  }

  LinkEnd sender_;
  LinkEnd receiver_;
};

TEST_F(LinkEndTest, PacketsComeInOrder) {
  for (uint32_t i = 0; i < 10000; ++i) {
    Send(i, 8 + i % 500, i);
    Packet packet;
    ASSERT_EQ(receiver_.Peek(packet), LinkEnd::Incoming::kPacket);
    EXPECT_EQ(packet.number, i);
    EXPECT_EQ(packet.payload_bytes, 8 + i % 500);
    receiver_.Consume(packet);
    receiver_.TellProgress();
  }
}

TEST_F(LinkEndTest, PacketsAreSeenAheadBeforeTheyAreConsumed) {
  // Several times around the ring, which they fill.
  uint32_t sent = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    const uint32_t first = sent;
    for (; sender_.Reserve(3000) != nullptr; ++sent) Send(sent, 3000, sent);
    ASSERT_GT(sent, first + 50);
    uint32_t ahead = 0;
    Packet packet;
    for (uint32_t i = first; i < sent; ++i) {
      ASSERT_EQ(receiver_.PeekAt(ahead, packet), LinkEnd::Incoming::kPacket);
      EXPECT_EQ(packet.number, i);
      ahead += PacketUnits(packet.payload_bytes);
    }
    EXPECT_EQ(receiver_.PeekAt(ahead, packet), LinkEnd::Incoming::kNothing);
    for (uint32_t i = first; i < sent; ++i) {
      ASSERT_EQ(receiver_.Peek(packet), LinkEnd::Incoming::kPacket);
      EXPECT_EQ(packet.number, i);
      receiver_.Consume(packet);
    }
    receiver_.TellProgress();
  }
}

// Packets of 192 bytes of which the last line holds some bytes only: where one
// ends, old headers stand whose stamps are overwritten in part. With two bytes
// of 65,536 values one in that many would be the stamp of the next packet.
TEST_F(LinkEndTest, TheEndOfAPayloadMakesNoPacketOfAnOldHeader) {
  constexpr uint32_t kHeaderBytes = sizeof(PacketHeader);
  for (uint32_t i = 0; i < 3'000'000; ++i) {
    const uint32_t begun = 1 + i % 3;
    Send(i, 128 - kHeaderBytes + begun, uint64_t{i} * 0x9e3779b97f4a7c15);
    Packet packet;
    ASSERT_EQ(receiver_.Peek(packet), LinkEnd::Incoming::kPacket);
    ASSERT_EQ(packet.number, i);
    receiver_.Consume(packet);
    ASSERT_EQ(receiver_.Peek(packet), LinkEnd::Incoming::kNothing) << i;
    receiver_.TellProgress();
  }
}

}  // namespace
}  // namespace verbena::soft
