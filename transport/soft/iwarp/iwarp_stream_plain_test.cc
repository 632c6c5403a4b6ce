// A peer that is not this device.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <vector>

#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/test_stream.h"

namespace verbena::soft {
namespace {

class PlainStreamTest : public StreamPairTest {
 protected:
  PlainStreamTest() : StreamPairTest(/*extended=*/false) {}
};

TEST_F(PlainStreamTest, ARequestIsExecutedWhenItIsSent) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  near.Put({.kind = PacketKind::kCount, .flags = kWhole, .number = 1});
  near.Put(
      {.kind = PacketKind::kRead, .flags = kWhole, .number = 2, .value = 4});
  EXPECT_EQ(near.Executed(), 0u);
  Run();
  EXPECT_EQ(near.Executed(), 3u);
  ASSERT_EQ(arrived.size(), 2u) << "a count is not said";
  EXPECT_EQ(arrived[0].flags, kWhole | kPacketUnhurried);
  EXPECT_EQ(arrived[1].number, 1u) << "the far end counts for itself";
  far.Put({.kind = PacketKind::kReadResponse, .flags = kWhole, .number = 1},
          "data");
  Run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].number, 2u);
}

TEST_F(PlainStreamTest, ANakIsATerminate) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  Run();
  far.Put({.kind = PacketKind::kNak, .flags = kWhole, .value = 1});
  far.Put({.kind = PacketKind::kSend, .flags = kWhole}, "too late");
  Run();
  EXPECT_TRUE(near.stream.ended());
  EXPECT_FALSE(near.stream.broken());
  EXPECT_EQ(near.stream.error(),
            "the peer has ended the stream: DDP: no receive request is posted "
            "(layer 1, type 2, code 2)");
  EXPECT_TRUE(answers.empty());
}

TEST_F(PlainStreamTest, ImmediateDataBehindAWriteIsARequestOfItsOwn) {
  near.Put({.kind = PacketKind::kWrite,
            .flags = kPacketFirst | kPacketImmediate,
            .rkey = 9,
            .value = 4,
            .address = 4096},
           "data");
  near.Put({.kind = PacketKind::kWrite,
            .flags = kPacketLast | kPacketImmediate,
            .value = 0x01020304});
  Run();
  const std::vector<TakenPacket> expected = {
      {.kind = PacketKind::kWrite,
       .flags = kWhole,
       .rkey = 9,
       .value = 4,
       .address = 4096,
       .payload = "data"},
      {.kind = PacketKind::kWrite,
       .flags = kPacketFirst | kPacketImmediate,
       .number = 1},
      {.kind = PacketKind::kWrite,
       .flags = kPacketLast | kPacketImmediate,
       .number = 1,
       .value = 0x01020304}};
  EXPECT_EQ(arrived, expected);
}

TEST_F(PlainStreamTest, AWriteOfNothingIsNoRequest) {
  near.Put({.kind = PacketKind::kWrite, .flags = kWhole});
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 1}, "x");
  Run();
  EXPECT_EQ(near.Executed(), 2u);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].payload, "x");
  EXPECT_EQ(arrived[0].number, 0u);
}

TEST_F(PlainStreamTest, ASendInSegmentsHasOneOpcode) {
  PutSegments({.kind = PacketKind::kSend}, Pattern(20'000));
  near.stream.Send(sockets.a.get());
  std::string bytes(30'000, '\0');
  ASSERT_GT(::recv(sockets.b.get(), bytes.data(), bytes.size(), 0), 20'000);
  size_t at = 0;
  for (int i = 0; i < 2; ++i) {
    DdpSegment segment;
    const auto* const from =
        reinterpret_cast<const std::byte*>(bytes.data()) + at;
    ASSERT_EQ(ParseSegment(from, bytes.size() - at, segment), nullptr);
    EXPECT_EQ(segment.opcode, RdmapOpcode::kSendSolicited);
    at += FpduBytes(segment.header_bytes() + segment.payload_bytes);
  }
}

TEST_F(PlainStreamTest, ASendInSegmentsCannotInvalidate) {
  near.Put({.kind = PacketKind::kSend, .flags = kPacketFirst}, "a");
  near.Put({.kind = PacketKind::kSend,
            .flags = kPacketLast | kPacketInvalidate,
            .value = 1},
           "b");
  EXPECT_FALSE(near.stream.Send(sockets.a.get()));
  EXPECT_TRUE(near.stream.broken());
}

TEST_F(PlainStreamTest, ASendWithImmediateDataCannotBeSaid) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole | kPacketImmediate});
  EXPECT_FALSE(near.stream.Send(sockets.a.get()));
  EXPECT_TRUE(near.stream.broken());
}

}  // namespace
}  // namespace verbena::soft
