// Packets of each kind, from one queue pair to the other.

#include "transport/soft/iwarp/iwarp_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/soft/iwarp/test_stream.h"

namespace verbena::soft {
namespace {

using IwarpStreamTest = StreamPairTest;

TEST_F(IwarpStreamTest, ASendArrivesWithItsFlags) {
  near.Put({.kind = PacketKind::kSend,
            .flags = kWhole | kPacketUnhurried,
            .number = 0},
           "hello");
  near.Put({.kind = PacketKind::kSend,
            .flags = kWhole | kPacketSolicited,
            .number = 1},
           "");
  near.Put({.kind = PacketKind::kSend,
            .flags = kWhole | kPacketInvalidate,
            .number = 2,
            .value = 0x12345678},
           "inv");
  near.Put({.kind = PacketKind::kSend,
            .flags = kWhole | kPacketInvalidate | kPacketSolicited,
            .number = 3,
            .value = 0x12345679},
           "both");
  Run();
  const std::vector<TakenPacket> expected = {
      {.kind = PacketKind::kSend,
       .flags = kWhole | kPacketUnhurried,
       .number = 0,
       .payload = "hello"},
      {.kind = PacketKind::kSend,
       .flags = kWhole | kPacketSolicited,
       .number = 1},
      {.kind = PacketKind::kSend,
       .flags = kWhole | kPacketInvalidate,
       .number = 2,
       .value = 0x12345678,
       .payload = "inv"},
      {.kind = PacketKind::kSend,
       .flags = kWhole | kPacketInvalidate | kPacketSolicited,
       .number = 3,
       .value = 0x12345679,
       .payload = "both"}};
  EXPECT_EQ(arrived, expected);
}

TEST_F(IwarpStreamTest, ALongSendArrivesWhole) {
  const std::string data = Pattern(300'001);
  PutSegments({.kind = PacketKind::kSend, .flags = kPacketSolicited}, data);
  Run();
  EXPECT_EQ(Joined(arrived), data);
  EXPECT_EQ(arrived.front().flags, kPacketFirst);
  EXPECT_EQ(arrived.back().flags, kPacketLast | kPacketSolicited);
}

TEST_F(IwarpStreamTest, EveryLengthArrives) {
  uint32_t number = 0;
  for (uint32_t bytes = 0; bytes <= kSegmentBytes;
       bytes += bytes < 70 || (bytes > 2030 && bytes < 2060) ? 1 : 211) {
    const std::string data = Pattern(bytes, bytes);
    while (!near.Put(
        {.kind = PacketKind::kSend, .flags = kWhole, .number = number}, data)) {
      Run();
    }
    Run();
    ASSERT_EQ(arrived.size(), number + 1);
    EXPECT_EQ(arrived.back().payload, data);
    EXPECT_EQ(arrived.back().number, number++);
  }
}

TEST_F(IwarpStreamTest, ASendWithImmediateDataIsClosedByAnEmptyPacket) {
  near.Put({.kind = PacketKind::kSend,
            .flags = kWhole | kPacketImmediate | kPacketSolicited,
            .value = 0xa1b2c3d4},
           "data");
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 1}, "next");
  Run();
  const std::vector<TakenPacket> expected = {
      {.kind = PacketKind::kSend, .flags = kPacketFirst, .payload = "data"},
      {.kind = PacketKind::kSend,
       .flags = kPacketLast | kPacketImmediate | kPacketSolicited,
       .value = 0xa1b2c3d4},
      {.kind = PacketKind::kSend,
       .flags = kWhole,
       .number = 1,
       .payload = "next"}};
  EXPECT_EQ(arrived, expected);
}

TEST_F(IwarpStreamTest, AShortWriteArrivesWithItsLength) {
  near.Put({.kind = PacketKind::kWrite,
            .flags = kWhole,
            .rkey = 0x51525354,
            .value = 5,
            .address = 0x1112131415161718},
           "write");
  Run();
  const std::vector<TakenPacket> expected = {{.kind = PacketKind::kWrite,
                                              .flags = kWhole,
                                              .rkey = 0x51525354,
                                              .value = 5,
                                              .address = 0x1112131415161718,
                                              .payload = "write"}};
  EXPECT_EQ(arrived, expected);
}

TEST_F(IwarpStreamTest, ALongWriteArrivesWithoutItsLength) {
  const std::string data = Pattern(100'000);
  PutSegments({.kind = PacketKind::kWrite,
               .rkey = 7,
               .value = 100'000,
               .address = 1 << 20},
              data);
  Run();
  EXPECT_EQ(Joined(arrived), data);
  EXPECT_EQ(arrived.front().value, kUnknownLength);
  EXPECT_EQ(arrived.front().address, 1u << 20);
  EXPECT_EQ(arrived.back().flags, kPacketLast);
}

TEST_F(IwarpStreamTest, AWriteWithImmediateDataAnnouncesIt) {
  const auto write = [this](const std::string& data, uint32_t number) {
    near.Put({.kind = PacketKind::kWrite,
              .flags = kPacketFirst | kPacketImmediate,
              .number = number,
              .rkey = 9,
              .value = static_cast<uint32_t>(data.size()),
              .address = 4096},
             data);
    near.Put({.kind = PacketKind::kWrite,
              .flags = kPacketLast | kPacketImmediate,
              .number = number,
              .value = 0x01020304});
  };
  write("data", 0);
  write("", 1);
  Run();
  ASSERT_EQ(arrived.size(), 4u);
  for (uint32_t i = 0; i < 2; ++i) {
    const TakenPacket& first = arrived[size_t{2} * i];
    EXPECT_EQ(first.flags, kPacketFirst | kPacketImmediate);
    EXPECT_EQ(first.value, first.payload.size());
    EXPECT_EQ(first.number, i);
    const TakenPacket& last = arrived[2 * i + 1];
    EXPECT_EQ(last.kind, PacketKind::kWrite);
    EXPECT_EQ(last.flags, kPacketLast | kPacketImmediate);
    EXPECT_EQ(last.value, 0x01020304u);
    EXPECT_EQ(last.number, i);
  }
}

TEST_F(IwarpStreamTest, AReadIsAnsweredWithItsNumber) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "first");
  near.Put({.kind = PacketKind::kRead,
            .flags = kWhole,
            .number = 1,
            .rkey = 0x21,
            .value = 40'000,
            .address = 0x4000});
  near.Put({.kind = PacketKind::kRead, .flags = kWhole, .number = 2});
  Run();
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[1], (TakenPacket{.kind = PacketKind::kRead,
                                     .flags = kWhole,
                                     .number = 1,
                                     .rkey = 0x21,
                                     .value = 40'000,
                                     .address = 0x4000}));
  const std::string data = Pattern(40'000);
  far.Put(
      {.kind = PacketKind::kReadResponse, .flags = kPacketFirst, .number = 1},
      data.substr(0, 16384));
  far.Put({.kind = PacketKind::kReadResponse, .number = 1},
          data.substr(16384, 16384));
  far.Put(
      {.kind = PacketKind::kReadResponse, .flags = kPacketLast, .number = 1},
      data.substr(32768));
  far.Put({.kind = PacketKind::kReadResponse, .flags = kWhole, .number = 2});
  Run();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(Joined(answers), data);
  EXPECT_EQ(answers[0].number, 1u);
  EXPECT_EQ(answers[0].flags, kPacketFirst | kPacketUnhurried);
  EXPECT_EQ(answers[2].flags, kPacketLast | kPacketUnhurried);
  EXPECT_EQ(answers[3].flags, kWhole | kPacketUnhurried);
  EXPECT_EQ(answers[3].number, 2u);
}

TEST_F(IwarpStreamTest, AtomicsAreAnsweredInTheOrderOfTheHost) {
  const AtomicOperands operands = {.compare_or_add = 0x0102030405060708,
                                   .swap = 0x1112131415161718};
  const std::string text(reinterpret_cast<const char*>(&operands),
                         sizeof(operands));
  near.Put({.kind = PacketKind::kCompareSwap,
            .flags = kWhole,
            .rkey = 3,
            .address = 64},
           text);
  near.Put({.kind = PacketKind::kFetchAdd,
            .flags = kWhole,
            .number = 1,
            .rkey = 4,
            .address = 72},
           text);
  Run();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0], (TakenPacket{.kind = PacketKind::kCompareSwap,
                                     .flags = kWhole,
                                     .rkey = 3,
                                     .address = 64,
                                     .payload = text}));
  EXPECT_EQ(arrived[1].kind, PacketKind::kFetchAdd);
  EXPECT_EQ(arrived[1].payload.substr(0, 8), text.substr(0, 8));
  for (uint32_t i = 0; i < 2; ++i) {
    far.Put({.kind = PacketKind::kReadResponse, .flags = kWhole, .number = i},
            Pattern(8, i));
  }
  Run();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].payload, Pattern(8, 0));
  EXPECT_EQ(answers[1].payload, Pattern(8, 1));
  EXPECT_EQ(answers[1].number, 1u);
}

TEST_F(IwarpStreamTest, ACountIsCounted) {
  near.Put({.kind = PacketKind::kCount, .flags = kWhole});
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 1}, "x");
  Run();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].kind, PacketKind::kCount);
  EXPECT_EQ(arrived[1].number, 1u);
}

TEST_F(IwarpStreamTest, ARequesterThatGoesBackIsUnderstood) {
  for (uint32_t i = 0; i < 3; ++i) {
    near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = i}, "once");
  }
  near.Put(
      {.kind = PacketKind::kRead, .flags = kWhole, .number = 3, .value = 4});
  // In the middle of a message.
  near.Put({.kind = PacketKind::kSend, .flags = kPacketFirst, .number = 4},
           "half");
  Run();
  arrived.clear();
  far.Put({.kind = PacketKind::kNak, .flags = kWhole, .number = 1, .value = 1});
  Run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(
      answers[0],
      (TakenPacket{
          .kind = PacketKind::kNak, .flags = kWhole, .number = 1, .value = 1}));
  answers.clear();
  for (uint32_t i = 1; i < 3; ++i) {
    near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = i},
             "again");
  }
  near.Put(
      {.kind = PacketKind::kRead, .flags = kWhole, .number = 3, .value = 4});
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 4}, "whole");
  Run();
  ASSERT_EQ(arrived.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(arrived[i].number, i + 1);
  EXPECT_EQ(arrived[3].payload, "whole");
  // The READ is answered once.
  far.Put({.kind = PacketKind::kReadResponse, .flags = kWhole, .number = 3},
          "data");
  Run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].payload, "data");
}

TEST_F(IwarpStreamTest, NumbersThatWereLeftOutAreUnderstood) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 0}, "a");
  near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = 7}, "b");
  Run();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[1].number, 7u);
}

TEST_F(IwarpStreamTest, ARefusalForGoodIsToldByATerminateToo) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  Run();
  far.Put({.kind = PacketKind::kNak, .flags = kWhole, .value = 3});
  Run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].value, 3u);
  EXPECT_FALSE(near.stream.ended()) << "the peer may have more to say";
}

}  // namespace
}  // namespace verbena::soft
