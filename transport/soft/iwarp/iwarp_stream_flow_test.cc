// When bytes move: acknowledgements, little room, and the end.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/test_stream.h"

namespace verbena::soft {
namespace {

using IwarpFlowTest = StreamPairTest;

class NarrowStreamTest : public StreamPairTest {
 protected:
  NarrowStreamTest() : StreamPairTest(/*extended=*/true, 1) {}
};

TEST_F(IwarpFlowTest, RequestsAreAcknowledgedWhenTheyWereExecuted) {
  far.stream.SetHurried(false);
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  Run();
  EXPECT_EQ(near.Executed(), 0u);
  // Alone, it waits for something to go along with.
  far.Execute(1);
  Run();
  EXPECT_EQ(near.Executed(), 0u);
  far.Put({.kind = PacketKind::kSend, .flags = kWhole}, "y");
  Run();
  EXPECT_EQ(near.Executed(), 1u);
}

TEST_F(IwarpFlowTest, ManyRequestsAreAcknowledgedAtOnce) {
  far.Execute(15);
  Run();
  EXPECT_EQ(near.Executed(), 0u);
  far.Execute(16);
  Run();
  EXPECT_EQ(near.Executed(), 16u);
}

TEST_F(IwarpFlowTest, TheAcknowledgementOfOneIsPatient) {
  far.stream.SetHurried(false);
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  Run();
  far.Execute(1);
  int calls = 1;
  while (!far.stream.Send(sockets.b.get())) ++calls;
  EXPECT_GT(calls, 32);
  EXPECT_LE(calls, 64);
  Run();
  EXPECT_EQ(near.Executed(), 1u);
}

TEST_F(IwarpFlowTest, WhatNobodyWaitsForIsAcknowledgedWithOtherBytes) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole | kPacketUnhurried},
           "x");
  Run();
  far.Execute(1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(far.stream.Send(sockets.b.get())) << i;
  }
  far.Put({.kind = PacketKind::kSend, .flags = kWhole}, "y");
  EXPECT_TRUE(far.stream.Send(sockets.b.get()));
  Run();
  EXPECT_EQ(near.Executed(), 1u);
}

TEST_F(IwarpFlowTest, AUserThatSleepsAcknowledgesAtOnce) {
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  Run();
  far.Execute(1);
  EXPECT_TRUE(far.stream.Send(sockets.b.get()));
  Run();
  EXPECT_EQ(near.Executed(), 1u);
}

TEST_F(IwarpFlowTest, WhatTheUserSaysComesBehindThePackets) {
  StreamMessage said = {.kind = StreamMessage::Kind::kCm};
  said.cm[3] = std::byte{42};
  ASSERT_TRUE(near.stream.Say({.words = {0x0000000500000001, 0}}));
  ASSERT_TRUE(near.stream.Say(said));
  for (uint32_t i = 0; i < 100; ++i) {
    near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = i}, "x");
  }
  near.stream.Send(sockets.a.get());
  far.stream.Receive(sockets.b.get());
  StreamMessage message;
  EXPECT_FALSE(far.stream.TakeMessage(message)) << "there are more packets";
  Run();
  EXPECT_EQ(arrived.size(), 100u);
  ASSERT_TRUE(far.stream.TakeMessage(message));
  EXPECT_EQ(message.kind, StreamMessage::Kind::kState);
  EXPECT_EQ(message.words[0], 0x0000000500000001u);
  ASSERT_TRUE(far.stream.TakeMessage(message));
  EXPECT_EQ(message.kind, StreamMessage::Kind::kCm);
  EXPECT_EQ(message.cm, said.cm);
  EXPECT_FALSE(far.stream.TakeMessage(message));
}

TEST_F(IwarpFlowTest, WhatNobodyTakesHoldsTheStreamBack) {
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(near.stream.Say({.words = {i, 0}}));
    Run();
  }
  EXPECT_TRUE(far.stream.no_room());
  StreamMessage message;
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(far.stream.TakeMessage(message));
    EXPECT_EQ(message.words[0], i);
    Run();
  }
  EXPECT_FALSE(far.stream.no_room());
}

TEST_F(IwarpFlowTest, AFullRingHoldsTheOtherHostBack) {
  const std::string data = Pattern(kSegmentBytes);
  uint32_t put = 0;
  std::vector<TakenPacket> taken;
  // Nobody takes packets at the far end.
  for (int i = 0; i < 1000; ++i) {
    if (near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = put},
                 data)) {
      ++put;
    }
    near.stream.Send(sockets.a.get());
    far.stream.Receive(sockets.b.get());
  }
  EXPECT_TRUE(far.stream.no_room());
  EXPECT_TRUE(near.stream.has_unsent());
  EXPECT_FALSE(near.Put(
      {.kind = PacketKind::kSend, .flags = kWhole, .number = put}, data));
  Run();
  ASSERT_EQ(arrived.size(), put);
  for (const TakenPacket& packet : arrived) EXPECT_EQ(packet.payload, data);
  EXPECT_FALSE(far.stream.no_room());
}

TEST_F(IwarpFlowTest, AQueuePairThatHasLeftHoldsNobodyBack) {
  far.queue_pair.SetState(kLinkClosed);
  const std::string data = Pattern(kSegmentBytes);
  uint32_t put = 0;
  for (int i = 0; i < 1000; ++i) {
    if (near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = put},
                 data)) {
      ++put;
    }
    near.stream.Send(sockets.a.get());
    far.stream.Receive(sockets.b.get());
  }
  EXPECT_GT(put, 900u);
  ASSERT_TRUE(near.stream.Say({}));
  Run();
  StreamMessage message;
  EXPECT_TRUE(far.stream.TakeMessage(message));
}

TEST_F(NarrowStreamTest, PartsOfABatchAreGoneOnWith) {
  const std::string data = Pattern(1'000'000);
  PutSegments({.kind = PacketKind::kSend}, data);
  for (uint32_t i = 1; i < 200; ++i) {
    while (!near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = i},
                     Pattern(size_t{7} * i, i))) {
      Run();
    }
  }
  near.stream.Send(sockets.a.get());
  EXPECT_TRUE(near.stream.has_unsent());
  Run();
  ASSERT_GE(arrived.size(), 199u);
  for (uint32_t i = 1; i < 200; ++i) {
    EXPECT_EQ(arrived[arrived.size() - 200 + i].payload,
              Pattern(size_t{7} * i, i));
    arrived[arrived.size() - 200 + i].payload.clear();
  }
  EXPECT_EQ(Joined(arrived), data);
}

TEST_F(IwarpFlowTest, BytesMayComeOneAtATime) {
  // The bytes of a peer are caught on their way.
  PutSegments({.kind = PacketKind::kSend}, Pattern(5000));
  near.Put(
      {.kind = PacketKind::kWrite, .flags = kWhole, .number = 1, .value = 3},
      "abc");
  near.Put({.kind = PacketKind::kRead, .flags = kWhole, .number = 2});
  near.Put({.kind = PacketKind::kCount, .flags = kWhole, .number = 3});
  while (near.stream.Send(sockets.a.get())) {
  }
  std::string bytes(100'000, '\0');
  const ssize_t got = ::recv(sockets.b.get(), bytes.data(), bytes.size(), 0);
  ASSERT_GT(got, 5000);
  for (ssize_t i = 0; i < got; ++i) {
    ASSERT_EQ(::send(sockets.a.get(), &bytes[static_cast<size_t>(i)], 1, 0), 1);
    EXPECT_TRUE(far.stream.Receive(sockets.b.get())) << i;
  }
  arrived = far.Take();
  ASSERT_EQ(arrived.size(), 5u);
  EXPECT_EQ(arrived[0].payload + arrived[1].payload, Pattern(5000));
  EXPECT_EQ(arrived[2].payload, "abc");
  EXPECT_EQ(arrived[4].kind, PacketKind::kCount);
  EXPECT_FALSE(far.stream.broken()) << far.stream.error();
}

TEST_F(IwarpFlowTest, WhatWasSaidBeforeTheEndIsTaken) {
  for (uint32_t i = 0; i < 20; ++i) {
    near.Put({.kind = PacketKind::kSend, .flags = kWhole, .number = i}, "x");
  }
  near.stream.Send(sockets.a.get());
  sockets.a.Reset();
  while (far.stream.Receive(sockets.b.get())) {
  }
  EXPECT_EQ(far.Take().size(), 20u);
  EXPECT_TRUE(far.stream.ended());
  EXPECT_EQ(far.stream.end_errno(), 0);
  EXPECT_FALSE(far.stream.broken());
}

TEST_F(IwarpFlowTest, ALostConnectionEndsTheStream) {
  sockets.b.Reset();
  near.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  EXPECT_FALSE(near.stream.Send(sockets.a.get()));
  near.stream.Receive(sockets.a.get());
  EXPECT_TRUE(near.stream.ended());
  EXPECT_EQ(near.stream.end_errno(), EPIPE);
  EXPECT_FALSE(near.stream.has_unsent());
}

}  // namespace
}  // namespace verbena::soft
