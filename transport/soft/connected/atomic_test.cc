// Compare-and-swap and fetch-and-add.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr uint64_t kBig = 0x1122334455667788;

TestEndOptions WithAtomics() {
  TestEndOptions options;
  options.access |= IBV_ACCESS_REMOTE_ATOMIC;
  return options;
}

// a works on b's memory.
class AtomicTest : public testing::Test {
 protected:
  AtomicTest() { ConnectByHand(a, b); }

  ibv_wc_status Outcome(uint64_t wr_id) {
    const ibv_wc completion = a.Wait(&b);
    EXPECT_EQ(completion.wr_id, wr_id);
    return completion.status;
  }

  TestEnd a{WithAtomics()};
  TestEnd b{WithAtomics()};
};

TEST_F(AtomicTest, TheResultMayBeScatteredAndMoreRoomThanEightBytesIsKept) {
  b.Word(0) = kBig;
  a.Fill(0, std::string(64, 'x'));
  ibv_sge entries[] = {a.Entry(3, 5), a.Entry(20, 10)};
  ibv_send_wr request = {};
  request.sg_list = entries;
  request.num_sge = 2;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic = {b.Address(0), 1, 0, b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Wait(&b).byte_len, 8u);
  const std::string word(reinterpret_cast<const char*>(&kBig), 8);
  EXPECT_EQ(a.Text(3, 5) + a.Text(20, 3), word);
  EXPECT_EQ(a.Text(23, 7), "xxxxxxx");
}

TEST_F(AtomicTest, AnAddressThatIsNotAlignedIsAnInvalidRequest) {
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(4), b.mr->rkey, 1), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.Word(0), 0u);
}

TEST_F(AtomicTest, AWrongKeyOrPlaceIsARemoteAccessError) {
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey + 1, 1), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_REM_ACCESS_ERR);
  TestEnd c(WithAtomics());
  TestEnd d(WithAtomics());
  ConnectByHand(c, d);
  ASSERT_EQ(
      c.CompareSwap(2, 0, d.Address(d.options.memory_bytes), d.mr->rkey, 0, 1),
      0);
  EXPECT_EQ(c.Wait(&d).status, IBV_WC_REM_ACCESS_ERR);
}

TEST(AtomicRightsTest, TheQueuePairMustAllowAtomics) {
  TestEnd a;
  TestEnd b;
  ConnectByHand(a, b);
  ibv_mr* region = b.verbs.reg_mr(
      b.pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), region->rkey, 1), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.verbs.dereg_mr(region), 0);
}

TEST_F(AtomicTest,
       AResultThatCannotBeWrittenIsALocalErrorBeforeAnythingIsDone) {
  ibv_mr* region = a.verbs.reg_mr(a.pd, a.memory, 4096, 0);
  ibv_sge entry = {a.Address(0), 8, region->lkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {b.Address(0), 1, 0, b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(Outcome(0), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.Word(0), 0u);
  EXPECT_EQ(a.verbs.dereg_mr(region), 0);
}

TEST_F(AtomicTest, RoomForLessThanEightBytesAndInlineAreRefusedWhenPosted) {
  ibv_sge entry = a.Entry(0, 7);
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {b.Address(0), 1, 0, b.mr->rkey};
  EXPECT_EQ(a.Post(request), EINVAL);
  EXPECT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1, IBV_SEND_INLINE),
            EINVAL);
}

TEST_F(AtomicTest, AtomicsAndReadsShareTheirLimitAndKeepTheirOrder) {
  b.Word(0) = 0;
  constexpr uint64_t kCount = 15;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(i % 3 == 2 ? a.Read(i, 8 * i, 8, b.Address(0), b.mr->rkey)
                         : a.FetchAdd(i, 8 * i, b.Address(0), b.mr->rkey, 1),
              0);
  }
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(Outcome(i), IBV_WC_SUCCESS);
    if (i % 3 == 2) continue;
    EXPECT_EQ(a.Word(8 * i), i - i / 3);
  }
  EXPECT_EQ(b.Word(0), kCount - kCount / 3);
}

TEST(AtomicLimitTest, MoreThanThePeerAcceptsAreAnInvalidRequest) {
  TestEndOptions none = WithAtomics();
  none.reads_accepted = 0;
  TestEnd a(WithAtomics());
  TestEnd b(none);
  ConnectByHand(a, b);
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.Word(0), 0u);
}

TEST(AtomicLimitTest, WithoutResourcesOfItsOwnItIsALocalError) {
  TestEndOptions none = WithAtomics();
  none.reads_max = 0;
  TestEnd a(none);
  TestEnd b(WithAtomics());
  ConnectByHand(a, b);
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST(AtomicLimitTest, ThoseThatExceedTheLimitWaitTheirTurn) {
  TestEndOptions one = WithAtomics();
  one.reads_max = one.reads_accepted = 1;
  TestEnd a(one);
  TestEnd b(one);
  ConnectByHand(a, b);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(a.FetchAdd(i, 8 * i, b.Address(0), b.mr->rkey, 1), 0);
  }
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.Word(8 * i), i);
  }
}

TEST_F(AtomicTest, EachIsExecutedOnceThoughTheReceiverWasNotReady) {
  ASSERT_EQ(a.FetchAdd(1, 8, b.Address(0), b.mr->rkey, 1), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);  // b has posted nothing.
  ASSERT_EQ(a.FetchAdd(3, 16, b.Address(0), b.mr->rkey, 1), 0);
  EXPECT_EQ(Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(a.StaysQuiet(&b, 3000));
  EXPECT_EQ(b.Word(0), 1u) << "ran ahead of the send, or twice";
  ASSERT_EQ(b.Receive(4, 64, 64), 0);
  EXPECT_EQ(Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Word(8), 0u);
  EXPECT_EQ(a.Word(16), 1u);
  EXPECT_EQ(b.Word(0), 2u);
}

// Several queue pairs, each run by its own thread, and the processor itself.
TEST(AtomicRaceTest, NoAdditionOfAnyQueuePairOrOfTheProcessorIsLost) {
  constexpr int kQueuePairs = 2;
  constexpr uint64_t kEach = 20'000;
  alignas(4096) static uint64_t counter[512];
  const auto add_by_queue_pair = [] {
    TestEnd near(WithAtomics());
    TestEnd far(WithAtomics());
    ConnectByHand(near, far);
    ibv_mr* region =
        far.verbs.reg_mr(far.pd, counter, sizeof(counter), far.options.access);
    for (uint64_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(near.FetchAdd(i, 0, reinterpret_cast<uint64_t>(counter),
                              region->rkey, 1),
                0);
      ASSERT_EQ(near.Wait(&far).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(far.verbs.dereg_mr(region), 0);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kQueuePairs; ++i) threads.emplace_back(add_by_queue_pair);
  std::atomic_ref<uint64_t> word(counter[0]);
  for (uint64_t i = 0; i < kEach; ++i) word.fetch_add(1);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(word.load(), (kQueuePairs + 1) * kEach);
}

TEST(AtomicDeviceTest, TheDeviceSaysThatTheyAreAtomicForEverybody) {
  TestEnd end;
  ibv_device_attr attributes;
  ASSERT_EQ(end.verbs.query_device(end.context, &attributes), 0);
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_GLOB);
}

}  // namespace
}  // namespace verbena::soft
