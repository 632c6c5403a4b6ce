#include "transport/soft/memory/on_demand_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "transport/soft/test_end.h"
#include "transport/soft/verbs/memory_region.h"

namespace verbena::soft {
namespace {

constexpr size_t kPage = 4096;
constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND;

// Two ends, and at the second one pages that may come and go.
class OnDemandTest : public testing::Test {
 protected:
  OnDemandTest() {
    ConnectManually(end_, peer_);
    pages_ =
        static_cast<char*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~OnDemandTest() override {
    if (mr_ != nullptr) {
      EXPECT_EQ(peer_.verbs.dereg_mr(mr_), 0);
    }
    munmap(pages_, kPages * kPage);
  }

  void Register(void* address, size_t length, int rights = kRights) {
    mr_ = peer_.verbs.reg_mr(peer_.pd, address, length, rights);
    ASSERT_NE(mr_, nullptr) << "errno " << errno;
  }
  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uint64_t>(pages_ + offset);
  }
  ibv_wc_status Write(size_t offset, size_t length) {
    EXPECT_EQ(end_.Write(1, 0, length, Address(offset), mr_->rkey), 0);
    return end_.Wait(&peer_).status;
  }
  ibv_wc_status Read(size_t offset, size_t length) {
    EXPECT_EQ(end_.Read(1, 0, length, Address(offset), mr_->rkey), 0);
    return end_.Wait(&peer_).status;
  }

  static constexpr size_t kPages = 16;
  TestEnd end_;
  TestEnd peer_;
  char* pages_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

TEST_F(OnDemandTest, TheDeviceSaysWhatItCan) {
  ibv_device_attr_ex attributes;
  ASSERT_EQ(ibv_query_device_ex(end_.context, nullptr, &attributes), 0);
  ASSERT_TRUE(CanAccessOnDemand());
  EXPECT_EQ(attributes.odp_caps.general_caps,
            uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  const uint32_t rc = attributes.odp_caps.per_transport_caps.rc_odp_caps;
  EXPECT_EQ(rc & IBV_ODP_SUPPORT_ATOMIC, 0u);
  EXPECT_NE(rc & IBV_ODP_SUPPORT_WRITE, 0u);
  EXPECT_NE(rc & IBV_ODP_SUPPORT_READ, 0u);
}

TEST_F(OnDemandTest, PagesMayComeAfterTheRegistration) {
  munmap(pages_, kPages * kPage);
  Register(pages_, kPages * kPage);
  ASSERT_EQ(mmap(pages_, kPages * kPage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            pages_);
  end_.Fill(0, "late");
  EXPECT_EQ(Write(5, 4), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(pages_ + 5, 4), "late");
  std::memcpy(pages_, "read", 4);
  EXPECT_EQ(Read(0, 4), IBV_WC_SUCCESS);
  EXPECT_EQ(end_.Text(0, 4), "read");
  EXPECT_EQ(Write(0, kPages * kPage / 2), IBV_WC_SUCCESS) << "in segments";
}

TEST_F(OnDemandTest, APageThatIsNotThereIsARemoteAccessError) {
  Register(pages_, kPages * kPage);
  munmap(pages_ + kPage, kPage);
  EXPECT_EQ(Write(kPage - 4, 8), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(peer_.State(), IBV_QPS_ERR);
}

TEST_F(OnDemandTest, AMissingPageCannotBeReadEither) {
  Register(pages_, kPages * kPage);
  munmap(pages_ + kPage, kPage);
  EXPECT_EQ(Read(kPage, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OnDemandTest, AReadOnlyPageIsNotWritten) {
  Register(pages_, kPages * kPage);
  ASSERT_EQ(mprotect(pages_, kPage, PROT_READ), 0);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OnDemandTest, TheWholeAddressSpaceIsOneRegion) {
  Register(nullptr, SIZE_MAX);
  end_.Fill(0, "anywhere");
  EXPECT_EQ(Write(kPage - 4, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(pages_ + kPage - 4, 8), "anywhere");
  ASSERT_EQ(end_.Write(1, 0, 8, 64, mr_->rkey), 0);
  EXPECT_EQ(end_.Wait(&peer_).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OnDemandTest, RightsAndBoundsHoldAsForAnyRegion) {
  Register(pages_, kPage, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
  EXPECT_EQ(Read(kPage - 8, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(OnDemandTest, MessagesComeFromAndGoToSuchMemory) {
  Register(pages_, kPages * kPage);
  const auto receive = [&](size_t offset) {
    ibv_sge entry = {Address(offset), 64, mr_->lkey};
    ibv_recv_wr request = {};
    request.sg_list = &entry;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    return ibv_post_recv(peer_.qp, &request, &bad);
  };
  ASSERT_EQ(receive(0), 0);
  end_.Fill(0, "to pages");
  ASSERT_EQ(end_.Send(1, 0, 8), 0);
  EXPECT_EQ(peer_.Wait(&end_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(pages_, 8), "to pages");
  // The other way, with two entries.
  ASSERT_EQ(end_.Receive(1, 0, 64), 0);
  ibv_sge entries[2] = {{Address(3), 5, mr_->lkey}, {Address(0), 2, mr_->lkey}};
  ibv_send_wr request = {};
  request.sg_list = entries;
  request.num_sge = 2;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(peer_.Post(request), 0);
  EXPECT_EQ(peer_.Wait(&end_).status, IBV_WC_SUCCESS);
  EXPECT_EQ(end_.Wait().status, IBV_WC_SUCCESS);  // The first message went.
  EXPECT_EQ(end_.Wait().byte_len, 7u);
  EXPECT_EQ(end_.Text(0, 7), "pagesto");
}

TEST_F(OnDemandTest, ASenderWithoutThePageHasALocalError) {
  Register(pages_, kPages * kPage);
  munmap(pages_, kPage);
  ASSERT_EQ(end_.Receive(1, 0, 64), 0);
  ibv_sge entry = {Address(0), 8, mr_->lkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(peer_.Post(request), 0);
  EXPECT_EQ(peer_.Wait(&end_).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(OnDemandTest, AdviceBringsPagesIn) {
  Register(pages_, kPages * kPage);
  ibv_sge entry = {Address(0), static_cast<uint32_t>(kPages * kPage),
                   mr_->lkey};
  const auto advise = [&](ibv_advise_mr_advice advice, uint32_t flags = 0) {
    return ibv_advise_mr(peer_.pd, advice, flags, &entry, 1);
  };
  EXPECT_EQ(
      advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  unsigned char resident[kPages];
  ASSERT_EQ(mincore(pages_, kPages * kPage, resident), 0);
  for (const unsigned char page : resident) EXPECT_NE(page & 1, 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 30), EINVAL);
  munmap(pages_ + kPage, kPage);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH), 0) << "only advice";
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH),
            EFAULT);
  entry.lkey = peer_.mr->lkey;
  entry.addr = peer_.Address(0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH), EFAULT)
      << "not registered on demand";
}

TEST(RegisterAtTest, ARegionMayHaveOtherAddressesThanItsMemory) {
  TestEnd end;
  TestEnd peer;
  ConnectManually(end, peer);
  ibv_mr* mr = RegMrAt(peer.pd, peer.memory + 100, 50, 0x10000,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  end.Fill(0, "moved");
  ASSERT_EQ(end.Write(1, 0, 5, 0x10000 + 45, mr->rkey), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_SUCCESS);
  EXPECT_EQ(peer.Text(145, 5), "moved");
  ASSERT_EQ(end.Write(1, 0, 5, peer.Address(100), mr->rkey), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(peer.verbs.dereg_mr(mr), 0);
  EXPECT_EQ(RegMrAt(peer.pd, peer.memory, 64, UINT64_MAX - 10, 0), nullptr);
}

}  // namespace
}  // namespace verbena::soft
