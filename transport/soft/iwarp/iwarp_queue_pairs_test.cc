// Two queue pairs whose link is an iWARP stream.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "transport/base/check.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/test_stream.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions EndOptions() {
  TestEndOptions options;
  options.memory_bytes = size_t{1} << 20;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  options.min_rnr_timer = 1;  // 10 us.
  return options;
}

// A queue pair and the stream that plays its peer.
struct StreamedEnd {
  explicit StreamedEnd(const IwarpStream::Terms& terms)
      : end(EndOptions()), stream(link, terms) {
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, doorbells), 0);
    LinkMemory memory = *LinkMemory::Create();
    link.Attach(*LinkMemory::Map(memory.fd()), LinkSide::kSecond, doorbells[1]);
    ConnectedQueuePair::From(end.qp)->AttachLink(
        std::move(memory), LinkSide::kFirst, doorbells[0]);
    if (!terms.extended) link.AskForWhole();
    link.SetState(kLinkOpen);
    end.Connect(4711);
  }
  ~StreamedEnd() {
    ConnectedQueuePair::From(end.qp)->DetachLink();
    ::close(doorbells[0]);
    ::close(doorbells[1]);
  }

  TestEnd end;
  LinkEnd link;
  IwarpStream stream;
  int doorbells[2];
};

class IwarpQueuePairsTest : public testing::TestWithParam<bool> {
 protected:
  IwarpQueuePairsTest()
      : near({.crc = true, .extended = GetParam()}),
        far({.crc = true, .extended = GetParam()}) {}

  void Move() {
    near.end.RunProtocol();
    near.stream.Send(sockets.a.get());
    far.stream.Receive(sockets.b.get());
    far.end.RunProtocol();
    far.stream.Send(sockets.b.get());
    near.stream.Receive(sockets.a.get());
    ASSERT_FALSE(near.stream.broken()) << near.stream.error();
    ASSERT_FALSE(far.stream.broken()) << far.stream.error();
  }

  // The next completion of an end.
  ibv_wc Next(StreamedEnd& of) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ibv_wc completion = {};
    completion.status = IBV_WC_GENERAL_ERR;
    while (!of.end.PollOnce(completion)) {
      Move();
      if (HasFatalFailure()) break;
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no completion has come";
        break;
      }
    }
    return completion;
  }
  ibv_wc_status Outcome(uint64_t wr_id) {
    const ibv_wc completion = Next(near);
    EXPECT_EQ(completion.wr_id, wr_id);
    return completion.status;
  }
  uint64_t Remote(size_t offset) { return far.end.Address(offset); }
  uint32_t RemoteKey() { return far.end.mr->rkey; }

  static constexpr size_t kLong = 300'000;

  SocketPair sockets;
  StreamedEnd near;
  StreamedEnd far;
};

TEST_P(IwarpQueuePairsTest, MessagesOfAnyLengthArrive) {
  const std::string text = Pattern(kLong);
  near.end.Fill(0, text);
  ASSERT_EQ(far.end.Receive(1, 0, 16), 0);
  ASSERT_EQ(far.end.Receive(2, 1000, kLong), 0);
  ASSERT_EQ(near.end.Send(3, 0, 16), 0);
  ASSERT_EQ(near.end.Send(4, 0, kLong), 0);
  EXPECT_EQ(Next(far).byte_len, 16u);
  EXPECT_EQ(Next(far).byte_len, kLong);
  EXPECT_EQ(Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(Outcome(4), IBV_WC_SUCCESS);
  EXPECT_TRUE(far.end.Text(1000, kLong) == text);
}

TEST_P(IwarpQueuePairsTest, MemoryIsReadAndWritten) {
  const std::string text = Pattern(kLong);
  near.end.Fill(0, text);
  ASSERT_EQ(near.end.Write(1, 0, kLong, Remote(64), RemoteKey()), 0);
  ASSERT_EQ(near.end.Write(2, 0, 0, Remote(64), RemoteKey()), 0);
  ASSERT_EQ(near.end.Read(3, 500'000, kLong, Remote(64), RemoteKey()), 0);
  ASSERT_EQ(near.end.Read(4, 0, 0, Remote(64), RemoteKey()), 0);
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(Outcome(i), IBV_WC_SUCCESS);
  EXPECT_TRUE(far.end.Text(64, kLong) == text);
  EXPECT_TRUE(near.end.Text(500'000, kLong) == text);
}

TEST_P(IwarpQueuePairsTest, AtomicsAreExecuted) {
  far.end.Word(64) = 40;
  ASSERT_EQ(near.end.FetchAdd(1, 0, Remote(64), RemoteKey(), 2), 0);
  ASSERT_EQ(near.end.CompareSwap(2, 8, Remote(64), RemoteKey(), 42, 77), 0);
  ASSERT_EQ(near.end.CompareSwap(3, 16, Remote(64), RemoteKey(), 42, 78), 0);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(Outcome(i), IBV_WC_SUCCESS);
  EXPECT_EQ(near.end.Word(0), 40u);
  EXPECT_EQ(near.end.Word(8), 42u);
  EXPECT_EQ(near.end.Word(16), 77u);
  EXPECT_EQ(far.end.Word(64), 77u);
}

TEST_P(IwarpQueuePairsTest, ImmediateDataBehindAWriteArrives) {
  ASSERT_EQ(far.end.Receive(1, 0, 0), 0);
  near.end.Fill(0, "written");
  ibv_sge entry = near.end.Entry(0, 7);
  ibv_send_wr request = {};
  request.wr_id = 2;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = 0x01020304;
  request.wr.rdma.remote_addr = Remote(64);
  request.wr.rdma.rkey = RemoteKey();
  ASSERT_EQ(near.end.Post(request), 0);
  const ibv_wc received = Next(far);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, 0x01020304u);
  EXPECT_EQ(far.end.Text(64, 7), "written");
  EXPECT_EQ(Outcome(2), IBV_WC_SUCCESS);
}

// Both ways at once, READs among them, so that rings and sockets are full.
TEST_P(IwarpQueuePairsTest, MuchMovesBothWays) {
  constexpr uint64_t kRounds = 50;
  for (StreamedEnd* const end : {&near, &far}) {
    end->end.Fill(0, Pattern(kLong));
    for (uint64_t i = 0; i < 8; ++i) {
      ASSERT_EQ(end->end.Receive(1000, 400'000, kLong), 0);
    }
  }
  const auto post = [](TestEnd& from, TestEnd& to, uint64_t i) {
    return i % 2 == 0 ? from.Send(i, 0, 5000 * (i + 1))
                      : from.Read(i, 720'000, 5000 * (i + 1), to.Address(0),
                                  to.mr->rkey);
  };
  uint64_t posted[2] = {0, 0};
  uint64_t done[2] = {0, 0};
  StreamedEnd* const ends[2] = {&near, &far};
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (done[0] < kRounds || done[1] < kRounds) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    for (int side = 0; side < 2; ++side) {
      TestEnd& own = ends[side]->end;
      while (posted[side] < kRounds && posted[side] < done[side] + 4) {
        ASSERT_EQ(post(own, ends[1 - side]->end, posted[side]), 0);
        ++posted[side];
      }
      ibv_wc completion;
      while (own.PollOnce(completion)) {
        ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << completion.opcode;
        if (completion.wr_id == 1000) {
          ASSERT_EQ(own.Receive(1000, 400'000, kLong), 0);
        } else {
          EXPECT_EQ(completion.wr_id, done[side]++);
        }
      }
    }
    Move();
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(IwarpQueuePairsTest, ABadKeyIsRefused) {
  ASSERT_EQ(near.end.Write(1, 0, 8, Remote(0), RemoteKey() ^ 1), 0);
  if (GetParam()) {
    EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
    return;
  }
  // A plain peer says only why it ends the stream.
  EXPECT_EQ(Outcome(1), IBV_WC_SUCCESS);
  while (!near.stream.ended()) {
    Move();
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(near.stream.error(),
            "the peer has ended the stream: RDMAP: memory that may not be used "
            "(layer 0, type 1, code 1)");
}

INSTANTIATE_TEST_SUITE_P(Peers, IwarpQueuePairsTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Extended" : "Plain";
                         });

using ExtendedQueuePairsTest = IwarpQueuePairsTest;
INSTANTIATE_TEST_SUITE_P(Peers, ExtendedQueuePairsTest, testing::Values(true),
                         [](const testing::TestParamInfo<bool>&) {
                           return "Extended";
                         });

TEST_P(ExtendedQueuePairsTest, ASendWaitsForItsReceive) {
  near.end.Fill(0, "to be repeated");
  ASSERT_EQ(near.end.Send(1, 0, 14), 0);
  ASSERT_EQ(near.end.Send(2, 0, 14), 0);
  ASSERT_EQ(near.end.Read(3, 100, 14, Remote(0), RemoteKey()), 0);
  ASSERT_EQ(near.end.Send(4, 0, 60'000), 0);
  for (int i = 0; i < 200; ++i) Move();
  ibv_wc completion;
  EXPECT_FALSE(near.end.PollOnce(completion));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(far.end.Receive(i, 100'000, 60'000), 0);
    for (int j = 0; j < 20; ++j) Move();
  }
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(Next(far).wr_id, i);
  for (uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(Outcome(i), IBV_WC_SUCCESS);
}

TEST_P(ExtendedQueuePairsTest, ImmediateDataOfASendArrives) {
  ASSERT_EQ(far.end.Receive(1, 0, 16), 0);
  near.end.Fill(0, "sent");
  ibv_sge entry = near.end.Entry(0, 4);
  ibv_send_wr request = {};
  request.wr_id = 2;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = 0x01020304;
  ASSERT_EQ(near.end.Post(request), 0);
  const ibv_wc received = Next(far);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 4u);
  EXPECT_EQ(received.imm_data, 0x01020304u);
  EXPECT_EQ(Outcome(2), IBV_WC_SUCCESS);
}

using PlainQueuePairsTest = IwarpQueuePairsTest;
INSTANTIATE_TEST_SUITE_P(Peers, PlainQueuePairsTest, testing::Values(false),
                         [](const testing::TestParamInfo<bool>&) {
                           return "Plain";
                         });

// The READ comes when the ring is full of the first WRITE, and the second WRITE
// is posted before the answer has gone.
TEST_P(PlainQueuePairsTest, WritesAndResponsesAreNotMixed) {
  ASSERT_EQ(near.end.Write(1, 0, kLong, Remote(0), RemoteKey()), 0);
  ASSERT_EQ(near.end.Write(2, 0, kLong, Remote(0), RemoteKey()), 0);
  ASSERT_EQ(
      far.end.Read(3, 500'000, kLong, near.end.Address(0), near.end.mr->rkey),
      0);
  far.stream.Send(sockets.b.get());
  near.stream.Receive(sockets.a.get());
  std::string bytes;
  std::string part(1 << 20, '\0');
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (bytes.size() < 3 * kLong) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    near.end.RunProtocol();
    near.stream.Send(sockets.a.get());
    const ssize_t got =
        ::recv(sockets.b.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) bytes.append(part, 0, static_cast<size_t>(got));
  }
  std::string order;
  bool begins = true;
  size_t at = 0;
  DdpSegment segment;
  while (ParseSegment(reinterpret_cast<const std::byte*>(bytes.data()) + at,
                      bytes.size() - at, segment) == nullptr) {
    const char kind = segment.opcode == RdmapOpcode::kWrite ? 'w' : 'r';
    if (begins) {
      order += kind;
    } else {
      EXPECT_EQ(kind, order.back()) << "in byte " << segment.offset;
    }
    begins = segment.last;
    at += FpduBytes(segment.header_bytes() + segment.payload_bytes);
  }
  EXPECT_EQ(order, "wrw");
}

}  // namespace
}  // namespace verbena::soft
