// A peer that says whatever it likes: the stream says what is wrong, and the
// queue pair gets nothing of it.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/test_stream.h"

namespace verbena::soft {
namespace {

class HostileStreamTest : public testing::Test {
 protected:
  explicit HostileStreamTest(bool extended = true)
      : own({.crc = true, .extended = extended}) {}

  void Say(const std::string& bytes) {
    ASSERT_EQ(::send(sockets.b.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    while (own.stream.Receive(sockets.a.get())) {
    }
  }
  // Says bytes that are wrong. Returns what the stream says of them.
  std::string Wrong(const std::string& bytes) {
    Say(bytes);
    EXPECT_TRUE(own.stream.broken());
    EXPECT_FALSE(own.stream.Receive(sockets.a.get()));
    EXPECT_FALSE(own.stream.Send(sockets.a.get()));
    EXPECT_TRUE(own.Take().empty());
    return std::string(own.stream.error());
  }
  // Has the queue pair ask for READs of these lengths.
  void Read(const std::vector<uint32_t>& lengths) {
    for (const uint32_t length : lengths) {
      own.Put({.kind = PacketKind::kRead,
               .flags = kWhole,
               .number = reads++,
               .value = length});
    }
    own.stream.Send(sockets.a.get());
  }
  std::string Response(uint32_t stag, uint64_t offset, bool last,
                       const std::string& data) {
    return Fpdu({.opcode = RdmapOpcode::kReadResponse,
                 .tagged = true,
                 .last = last,
                 .stag = stag,
                 .offset = offset},
                data);
  }
  std::string Send(uint32_t sequence, uint64_t offset, bool last,
                   const std::string& data) {
    return Fpdu({.last = last, .offset = offset, .sequence = sequence}, data);
  }
  std::string Write(uint32_t stag, uint64_t offset, bool last,
                    const std::string& data) {
    return Fpdu({.opcode = RdmapOpcode::kWrite,
                 .tagged = true,
                 .last = last,
                 .stag = stag,
                 .offset = offset},
                data);
  }
  std::string Message(uint32_t sequence, const StreamMessage& message) {
    return Fpdu({.opcode = RdmapOpcode::kExtended,
                 .last = true,
                 .queue = kExtendedQueue,
                 .sequence = sequence},
                MessageText(message));
  }
  std::string ReadRequest(uint32_t sequence) {
    return Fpdu({.opcode = RdmapOpcode::kReadRequest,
                 .last = true,
                 .queue = kRequestQueue,
                 .sequence = sequence},
                BodyText(ReadRequestBody{.sink_stag = sequence, .length = 4}));
  }

  SocketPair sockets;
  TestStream own;
  uint32_t reads = 0;
};

class HostilePlainTest : public HostileStreamTest {
 protected:
  HostilePlainTest() : HostileStreamTest(/*extended=*/false) {}
};

TEST_F(HostileStreamTest, ACorrectPeerIsHeard) {
  Say(Send(1, 0, true, "x") + Write(1, 2, true, "y") + ReadRequest(1) +
      Message(1, {.kind = StreamMessage::Kind::kCount}));
  EXPECT_EQ(own.Take().size(), 4u);
  EXPECT_FALSE(own.stream.broken()) << own.stream.error();
}

TEST_F(HostileStreamTest, OtherBytesAreNoFpdu) {
  EXPECT_EQ(Wrong("GET / HTTP/1.1\r\n\r\n"),
            "a DDP segment of another version than 1");
}

TEST_F(HostileStreamTest, ABitThatHasChangedIsFound) {
  std::string bytes = Send(1, 0, true, "abcdefgh");
  bytes[21] ^= 1;
  EXPECT_EQ(Wrong(bytes), "an FPDU with a wrong CRC");
}

TEST_F(HostileStreamTest, ABitOfALargePayloadThatHasChangedIsFound) {
  std::string bytes = Send(1, 0, true, Pattern(kSegmentBytes));
  bytes[10'000] ^= 1;
  // The end of it goes straight into the ring.
  Say(bytes.substr(0, 5000));
  EXPECT_EQ(Wrong(bytes.substr(5000)), "an FPDU with a wrong CRC");
}

TEST_F(HostileStreamTest, ASendOutOfTurnIsRefused) {
  EXPECT_EQ(Wrong(Send(2, 0, true, "x")),
            "byte 0 of Send 2 where byte 0 of 1 is the next");
}

TEST_F(HostileStreamTest, ASendThatLeavesBytesOutIsRefused) {
  Say(Send(1, 0, false, "abcd"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Send(1, 5, true, "x")),
            "byte 5 of Send 1 where byte 4 of 1 is the next");
}

TEST_F(HostileStreamTest, ASendWithinAWriteIsRefused) {
  Say(Write(1, 2, false, "y"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Send(1, 0, true, "x")), "a Send within another message");
}

TEST_F(HostileStreamTest, AWriteWithinASendIsRefused) {
  Say(Send(1, 0, false, "x"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Write(1, 2, true, "y")),
            "an RDMA Write within another message");
}

TEST_F(HostileStreamTest, AWriteThatGoesOnElsewhereIsRefused) {
  Say(Write(0x11, 0x1000, false, "abcd"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Write(0x11, 0x1005, true, "x")),
            "an RDMA Write to 0x1005 of key 0x11 that goes on elsewhere");
}

TEST_F(HostileStreamTest, AWriteThatChangesItsKeyIsRefused) {
  Say(Write(0x11, 0x1000, false, "abcd"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Write(0x12, 0x1004, true, "x")),
            "an RDMA Write to 0x1004 of key 0x12 that goes on elsewhere");
}

TEST_F(HostileStreamTest, ARequestWithinAMessageIsRefused) {
  Say(Send(1, 0, false, "x"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(ReadRequest(1)), "a Read Request within another message");
}

TEST_F(HostileStreamTest, ARequestOutOfTurnIsRefused) {
  EXPECT_EQ(Wrong(ReadRequest(2)),
            "message 2 of untagged queue 1 where 1 is the next");
}

TEST_F(HostileStreamTest, ARequestOfAnotherLengthIsRefused) {
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kReadRequest,
                        .last = true,
                        .queue = kRequestQueue,
                        .sequence = 1},
                       std::string(27, '\0'))),
            "a message of RDMAP opcode 1 with 27 bytes instead of 28");
}

TEST_F(HostileStreamTest, ARequestInSegmentsIsRefused) {
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kReadRequest,
                        .queue = kRequestQueue,
                        .sequence = 1},
                       std::string(28, '\0'))),
            "a message of RDMAP opcode 1 in several segments");
}

TEST_F(HostileStreamTest, AnAtomicWithMasksIsRefused) {
  AtomicRequestBody body = AtomicRequestBody::Of(PacketKind::kCompareSwap, {});
  body.compare_mask = 1;
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kAtomicRequest,
                        .last = true,
                        .queue = kRequestQueue,
                        .sequence = 1},
                       BodyText(body))),
            "an Atomic Request with masks, or of the operation 2");
}

TEST_F(HostileStreamTest, ImmediateDataOutOfTheBlueIsRefused) {
  EXPECT_EQ(
      Wrong(
          Fpdu({.opcode = RdmapOpcode::kImmediate, .last = true, .sequence = 1},
               std::string(8, '\0'))),
      "immediate data that no message has announced");
}

TEST_F(HostileStreamTest, WhatFollowsAnAnnouncementMustBeImmediateData) {
  Say(Fpdu({.last = true, .immediate_follows = true, .sequence = 1}, "x"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Send(2, 0, true, "x")), "a Send within another message");
}

TEST_F(HostileStreamTest, AnAnswerThatNobodyAskedForIsRefused) {
  EXPECT_EQ(Wrong(Response(1, 0, true, "data")),
            "a Read Response, but no READ is under way");
}

TEST_F(HostileStreamTest, AnAnswerToAnotherKeyIsRefused) {
  Read({4});
  EXPECT_EQ(Wrong(Response(77, 0, true, "data")),
            "a Read Response that is not for the oldest READ");
}

TEST_F(HostileStreamTest, AnAnswerToALaterReadIsRefused) {
  Read({4, 4});
  EXPECT_EQ(Wrong(Response(2, 0, true, "data")),
            "a Read Response that is not for the oldest READ");
}

TEST_F(HostileStreamTest, AnAnswerThatIsTooLongIsRefused) {
  Read({4});
  EXPECT_EQ(Wrong(Response(1, 0, true, "data!")),
            "5 bytes of a Read Response at 0, where 4 are due at 0");
}

TEST_F(HostileStreamTest, AnAnswerThatIsTooShortIsRefused) {
  Read({4});
  EXPECT_EQ(Wrong(Response(1, 0, true, "dat")),
            "a Read Response that ends elsewhere than its READ");
}

TEST_F(HostileStreamTest, AnAnswerWithoutItsEndIsRefused) {
  Read({4});
  EXPECT_EQ(Wrong(Response(1, 0, false, "data")),
            "a Read Response that ends elsewhere than its READ");
}

TEST_F(HostileStreamTest, AnAnswerOfNothingIsRefused) {
  Read({4});
  EXPECT_EQ(Wrong(Response(1, 0, false, "")),
            "a Read Response that ends elsewhere than its READ");
}

TEST_F(HostileStreamTest, AnAnswerToAnotherPlaceIsRefused) {
  Read({8});
  Say(Response(1, 0, false, "data"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Response(1, 3, false, "x")),
            "1 bytes of a Read Response at 3, where 4 are due at 4");
}

TEST_F(HostileStreamTest, AnAnswerAfterTheReadHasEndedIsRefused) {
  Read({4, 4});
  Say(Response(1, 0, true, "data"));
  EXPECT_EQ(own.Take().size(), 1u);
  EXPECT_EQ(Wrong(Response(1, 0, true, "data")),
            "a Read Response that is not for the oldest READ");
}

TEST_F(HostileStreamTest, AnAtomicAnswerToAReadIsRefused) {
  Read({8});
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kAtomicResponse,
                        .last = true,
                        .queue = kAtomicResponseQueue,
                        .sequence = 1},
                       BodyText(AtomicResponseBody{.request = 1}))),
            "an Atomic Response that is not for the oldest atomic");
}

TEST_F(HostileStreamTest, ATerminateWithoutCodesIsRefused) {
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kTerminate,
                        .last = true,
                        .queue = kTerminateQueue,
                        .sequence = 1},
                       "abc")),
            "a Terminate without its codes");
}

TEST_F(HostileStreamTest, ExtendedMessagesOfOtherLengthsAreRefused) {
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kExtended,
                        .last = true,
                        .queue = kExtendedQueue,
                        .sequence = 1},
                       std::string(20, '\6'))),
            "an extended message of the unknown kind 101058054");
}

TEST_F(HostileStreamTest, ACmMessageWithoutItsImageIsRefused) {
  StreamMessage message = {.kind = StreamMessage::Kind::kCm};
  EXPECT_EQ(Wrong(Fpdu({.opcode = RdmapOpcode::kExtended,
                        .last = true,
                        .queue = kExtendedQueue,
                        .sequence = 1},
                       MessageText(message).substr(0, 255))),
            "an extended message of kind 6 with 255 bytes");
}

TEST_F(HostileStreamTest, MoreRequestsThanThereMayBeWait) {
  for (uint32_t i = 0; i < 2 * kReadsMax; ++i) Say(ReadRequest(1 + i));
  EXPECT_EQ(own.Take().size(), size_t{kReadsMax});
  EXPECT_TRUE(own.stream.no_room());
  EXPECT_FALSE(own.stream.broken()) << own.stream.error();
  own.Put({.kind = PacketKind::kReadResponse, .flags = kWhole}, "data");
  EXPECT_TRUE(own.stream.Send(sockets.a.get()));
  EXPECT_TRUE(own.stream.Receive(sockets.a.get()));
  EXPECT_EQ(own.Take().size(), 1u);
}

TEST_F(HostileStreamTest, AReadAnsweredByTheQueuePairThatNobodyAskedForBreaks) {
  own.Put({.kind = PacketKind::kReadResponse, .flags = kWhole}, "data");
  EXPECT_FALSE(own.stream.Send(sockets.a.get()));
  EXPECT_EQ(own.stream.error(),
            "the queue pair answers a READ that the peer has not asked for");
}

TEST_F(HostilePlainTest, ExtendedMessagesAreRefused) {
  EXPECT_EQ(Wrong(Message(1, {.kind = StreamMessage::Kind::kAck})),
            "RDMAP opcode 15 from a peer that is not this device");
}

TEST_F(HostilePlainTest, TheReservedBitsMeanNothing) {
  Say(Fpdu({.last = true,
            .immediate_follows = true,
            .unhurried = true,
            .sequence = 1},
           "x") +
      Send(2, 0, true, "y"));
  EXPECT_EQ(own.Take().size(), 2u);
  EXPECT_FALSE(own.stream.broken()) << own.stream.error();
}

// Other devices send segments of up to 64 KiB.
TEST_F(HostilePlainTest, SegmentsOfAnyLengthAreCutIntoPackets) {
  const std::string data = Pattern(65'000);
  Say(Send(1, 0, false, data) + Send(1, data.size(), true, "end") +
      Write(5, 0x1000, true, data));
  std::string send;
  std::string write;
  for (const TakenPacket& packet : own.Take()) {
    (packet.kind == PacketKind::kSend ? send : write) += packet.payload;
    if (packet.kind == PacketKind::kWrite && packet.address != 0) {
      EXPECT_EQ(packet.value, data.size());
    }
  }
  EXPECT_EQ(send, data + "end");
  EXPECT_EQ(write, data);
}

TEST_F(HostilePlainTest, ASegmentThatFindsRoomInPartIsNotTakenTwice) {
  const std::string data = Pattern(65'000);
  std::string all;
  std::string taken;
  for (uint32_t i = 0; i < 8; ++i) {
    Say(Send(1 + i, 0, true, data));
    all += data;
  }
  EXPECT_TRUE(own.stream.no_room());
  for (bool moved = true; moved;) {
    moved = own.stream.Receive(sockets.a.get());
    for (const TakenPacket& packet : own.Take()) {
      taken += packet.payload;
      moved = true;
    }
  }
  EXPECT_FALSE(own.stream.broken()) << own.stream.error();
  EXPECT_TRUE(taken == all);
}

TEST_F(HostilePlainTest, WithoutACrcNoneIsLookedAt) {
  TestStream other({.crc = false, .extended = false});
  const std::string bytes = Fpdu({.last = true, .sequence = 1}, "x", false);
  ASSERT_GT(::send(sockets.b.get(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_TRUE(other.stream.Receive(sockets.a.get()));
  EXPECT_EQ(other.Take().size(), 1u);
  other.Put({.kind = PacketKind::kSend, .flags = kWhole}, "x");
  EXPECT_TRUE(other.stream.Send(sockets.a.get()));
  char sent[64];
  ASSERT_EQ(::recv(sockets.b.get(), sent, sizeof(sent), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(std::string(sent, bytes.size()), bytes);
}

}  // namespace
}  // namespace verbena::soft
