// Compare-and-swap and fetch-and-add.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

constexpr uint64_t kBig = 0x1122334455667788;

// a works on b's memory.
class AtomicsTest : public testing::Test {
 protected:
  AtomicsTest() { Connect(a, b); }

  End a{WithAtomics()};
  End b{WithAtomics()};
};

TEST_F(AtomicsTest, FetchAndAddAddsAndBringsWhatWasThere) {
  b.Word(64) = kBig;
  ASSERT_EQ(a.FetchAdd(7, 8, b.Address(64), b.mr->rkey, 100), 0);
  const ibv_wc done = a.Wait();
  EXPECT_EQ(done.wr_id, 7u);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(done.byte_len, 8u);
  EXPECT_EQ(a.Word(8), kBig);
  EXPECT_EQ(b.Word(64), kBig + 100);
}

TEST_F(AtomicsTest, AdditionWrapsAround) {
  b.Word(0) = UINT64_MAX;
  ASSERT_EQ(a.FetchAdd(1, 8, b.Address(0), b.mr->rkey, 2), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Word(0), 1u);
}

TEST_F(AtomicsTest, CompareAndSwapSwapsOnlyWhatIsEqual) {
  b.Word(64) = kBig;
  ASSERT_EQ(a.CompareSwap(1, 0, b.Address(64), b.mr->rkey, kBig, 5), 0);
  const ibv_wc done = a.Wait();
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(a.Word(0), kBig);
  EXPECT_EQ(b.Word(64), 5u);
  ASSERT_EQ(a.CompareSwap(2, 0, b.Address(64), b.mr->rkey, kBig, 9), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Word(0), 5u) << "the value that made it fail";
  EXPECT_EQ(b.Word(64), 5u);
}

TEST_F(AtomicsTest, TheResultIsScatteredAndMoreRoomThanAWordIsKept) {
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
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS);
  const std::string word(reinterpret_cast<const char*>(&kBig), 8);
  EXPECT_EQ(a.Text(3, 5) + a.Text(20, 3), word);
  EXPECT_EQ(a.Text(23, 7), "xxxxxxx");
}

TEST_F(AtomicsTest, AnAddressThatIsNotAlignedIsAnInvalidRequest) {
  const int error = a.FetchAdd(1, 0, b.Address(4), b.mr->rkey, 1);
  if (Keeps(Promise::kResponderChecksAlignment)) {
    ASSERT_EQ(error, 0);
    EXPECT_EQ(a.Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  } else {
    EXPECT_EQ(error, EINVAL);
  }
  EXPECT_EQ(b.Word(0), 0u);
}

TEST_F(AtomicsTest, ARegionThatIsNotAlignedIsAnInvalidRequest) {
  // Address 0 of the region, which lies four bytes beside a word.
  ibv_mr* const region =
      Verbs().reg_mr_iova(b.pd, b.memory + 4, 64, 0, b.options.access);
  if (!Keeps(Promise::kARegionMayBeginAtAnyAddress)) {
    EXPECT_EQ(region, nullptr);
    EXPECT_EQ(errno, EINVAL);
    return;
  }
  ASSERT_NE(region, nullptr);
  ASSERT_EQ(a.FetchAdd(1, 0, 0, region->rkey, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.Word(0), 0u);
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
}

TEST_F(AtomicsTest, AKeyThatIsNoneIsARemoteAccessError) {
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey ^ 0x55, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(AtomicsTest, AWordBehindTheRegionIsARemoteAccessError) {
  ASSERT_EQ(
      a.CompareSwap(1, 0, b.Address(b.options.memory_bytes), b.mr->rkey, 0, 1),
      0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(AtomicsTest, TheRegionMustAllowThem) {
  ibv_mr* const region = Verbs().reg_mr(b.pd, b.memory, 4096, kAllAccess);
  ASSERT_NE(region, nullptr);
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), region->rkey, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b.Word(0), 0u);
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
}

TEST_F(AtomicsTest, TheQueuePairMustAllowThem) {
  ibv_qp_attr attributes = {};
  attributes.qp_access_flags = static_cast<unsigned int>(kAllAccess);
  ASSERT_EQ(Verbs().modify_qp(b.qp, &attributes, IBV_QP_ACCESS_FLAGS), 0);
  ASSERT_EQ(a.FetchAdd(1, 0, b.Address(0), b.mr->rkey, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.Word(0), 0u);
}

TEST_F(AtomicsTest, AResultForWhichThereIsNoMemoryIsALocalError) {
  ibv_mr* const region = Verbs().reg_mr(a.pd, a.memory, 4096, 0);
  ASSERT_NE(region, nullptr);
  ibv_sge entry = {a.Address(0), 8, region->lkey};
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic = {b.Address(0), 1, 0, b.mr->rkey};
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.Word(0), 1u) << "it is done, and its result is lost";
  EXPECT_EQ(Verbs().dereg_mr(region), 0);
}

TEST_F(AtomicsTest, RoomForLessThanAWordIsALocalLengthError) {
  ibv_sge entry = a.Entry(0, 7);
  ibv_send_wr request = {};
  request.wr_id = 1;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {b.Address(0), 1, 0, b.mr->rkey};
  if (!Keeps(Promise::kAShortAtomicIsALocalLengthError)) {
    EXPECT_EQ(a.Post(request), EINVAL);
    return;
  }
  ASSERT_EQ(a.Post(request), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_LOC_LEN_ERR);
}

TEST_F(AtomicsTest, MoreThanMayBeOutstandingWaitTheirTurnAmongReads) {
  constexpr uint64_t kCount = 15;
  ASSERT_LE(kCount, a.options.send_depth);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(i % 3 == 2 ? a.Read(i, 8 * i, 8, b.Address(0), b.mr->rkey)
                         : a.FetchAdd(i, 8 * i, b.Address(0), b.mr->rkey, 1),
              0);
  }
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(a.Outcome(i), IBV_WC_SUCCESS);
    if (i % 3 != 2) {
      EXPECT_EQ(a.Word(8 * i), i - i / 3);
    }
  }
  EXPECT_EQ(b.Word(0), kCount - kCount / 3);
}

TEST_F(AtomicsTest, AFencedMessageCarriesTheResultBeforeIt) {
  b.Word(0) = kBig;
  ASSERT_EQ(b.Receive(1, 64, 64), 0);
  ASSERT_EQ(a.FetchAdd(1, 8, b.Address(0), b.mr->rkey, 1, 0), 0);
  ASSERT_EQ(a.Send(2, 8, 8, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Word(64), kBig);
}

TEST_F(AtomicsTest, EachIsDoneOnceThoughTheReceiverWasNotReady) {
  ASSERT_EQ(a.FetchAdd(1, 8, b.Address(0), b.mr->rkey, 1), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);  // b has posted nothing.
  ASSERT_EQ(a.FetchAdd(3, 16, b.Address(0), b.mr->rkey, 1), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(b.Receive(4, 64, 64), 0);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Word(8), 0u);
  EXPECT_EQ(a.Word(16), 1u);
  EXPECT_EQ(b.Word(0), 2u);
}

// Several connections whose far ends lie over one word.
class SharedWordTest : public testing::Test {
 protected:
  static constexpr size_t kPairs = 3;

  SharedWordTest() {
    for (size_t i = 0; i < kPairs; ++i) {
      near.push_back(std::make_unique<End>(WithAtomics()));
      far.push_back(std::make_unique<End>(WithAtomics()));
      Connect(*near[i], *far[i]);
      regions.push_back(Verbs().reg_mr(far[i]->pd, words.data(), sizeof(words),
                                       far[i]->options.access));
      EXPECT_NE(regions[i], nullptr);
    }
  }
  ~SharedWordTest() override {
    for (ibv_mr* region : regions) EXPECT_EQ(Verbs().dereg_mr(region), 0);
  }
  uint64_t Word() const { return reinterpret_cast<uint64_t>(words.data()); }

  alignas(4096) std::array<uint64_t, 512> words = {};
  std::vector<std::unique_ptr<End>> near;
  std::vector<std::unique_ptr<End>> far;
  std::vector<ibv_mr*> regions;
};

TEST_F(SharedWordTest, NoAdditionOfAnyQueuePairIsLost) {
  constexpr uint64_t kEach = 60;
  constexpr uint64_t kAtOnce = 12;
  std::set<uint64_t> seen;
  for (uint64_t round = 0; round < kEach / kAtOnce; ++round) {
    for (uint64_t i = 0; i < kAtOnce; ++i) {
      for (size_t pair = 0; pair < kPairs; ++pair) {
        ASSERT_EQ(
            near[pair]->FetchAdd(i, 8 * i, Word(), regions[pair]->rkey, 1), 0);
      }
    }
    for (size_t pair = 0; pair < kPairs; ++pair) {
      for (uint64_t i = 0; i < kAtOnce; ++i) {
        ASSERT_EQ(near[pair]->Outcome(i), IBV_WC_SUCCESS);
        EXPECT_TRUE(seen.insert(near[pair]->Word(8 * i)).second)
            << "two queue pairs have seen " << near[pair]->Word(8 * i);
      }
    }
  }
  EXPECT_EQ(words[0], kPairs * kEach);
  EXPECT_EQ(*seen.rbegin(), kPairs * kEach - 1);
}

TEST_F(SharedWordTest, OfAllThatSwapTheSameValueOneSucceeds) {
  for (uint64_t round = 0; round < 20; ++round) {
    words[round] = kBig;
    for (size_t pair = 0; pair < kPairs; ++pair) {
      ASSERT_EQ(near[pair]->CompareSwap(round, 0, Word() + 8 * round,
                                        regions[pair]->rkey, kBig, pair),
                0);
    }
    // The device may access the word until all requests are done.
    for (size_t pair = 0; pair < kPairs; ++pair) {
      ASSERT_EQ(near[pair]->Outcome(round), IBV_WC_SUCCESS);
    }
    int winners = 0;
    for (size_t pair = 0; pair < kPairs; ++pair) {
      if (near[pair]->Word(0) == kBig) {
        ++winners;
        EXPECT_EQ(words[round], pair);
      } else {
        EXPECT_EQ(near[pair]->Word(0), words[round]);
      }
    }
    EXPECT_EQ(winners, 1);
  }
}

}  // namespace
}  // namespace verbena::conformance
