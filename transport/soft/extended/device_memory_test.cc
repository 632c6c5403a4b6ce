#include "transport/soft/extended/device_memory.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr unsigned int kRights = IBV_ACCESS_LOCAL_WRITE |
                                 IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED;

ibv_dm* Allocate(TestEnd& end, size_t length, uint32_t log_alignment = 0) {
  ibv_alloc_dm_attr attributes = {length, log_alignment, 0};
  return ibv_alloc_dm(end.context, &attributes);
}

std::string Text(ibv_dm* dm, uint64_t offset, size_t length) {
  std::string text(length, '?');
  EXPECT_EQ(ibv_memcpy_from_dm(text.data(), dm, offset, length), 0);
  return text;
}

TEST(DeviceMemoryTest, ItIsCopiedToAndFrom) {
  TestEnd end;
  ibv_dm* dm = Allocate(end, 100);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(Text(dm, 0, 3), std::string(3, '\0')) << "zero at first";
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 97, "end", 3), 0);
  EXPECT_EQ(Text(dm, 97, 3), "end");
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 98, "end", 3), EFAULT);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, UINT64_MAX, "end", 3), EFAULT);
  char byte;
  EXPECT_EQ(ibv_memcpy_from_dm(&byte, dm, 100, 1), EFAULT);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST(DeviceMemoryTest, APeerWritesAndReadsItFromAddressZero) {
  TestEnd end;
  TestEnd peer;
  ConnectManually(end, peer);
  ibv_dm* dm = Allocate(peer, 4096);
  ibv_mr* mr = ibv_reg_dm_mr(peer.pd, dm, 1000, 100, kRights);
  ASSERT_NE(mr, nullptr) << "errno " << errno;
  end.Fill(0, "hello");
  ASSERT_EQ(end.Write(1, 0, 5, 95, mr->rkey), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Text(dm, 1095, 5), "hello");
  ASSERT_EQ(end.Read(2, 50, 5, 95, mr->rkey), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_SUCCESS);
  EXPECT_EQ(end.Text(50, 5), "hello");
  EXPECT_EQ(ibv_free_dm(dm), EBUSY) << "a region is left";
  ASSERT_EQ(end.Write(3, 0, 5, 96, mr->rkey), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_REM_ACCESS_ERR) << "beyond its end";
  EXPECT_EQ(peer.verbs.dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST(DeviceMemoryTest, MessagesComeFromItAndGoThere) {
  TestEnd end;
  ibv_dm* dm = Allocate(end, 64);
  ibv_mr* mr = ibv_reg_dm_mr(end.pd, dm, 0, 64, kRights);
  TestEnd peer;
  ConnectManually(end, peer);
  ASSERT_EQ(peer.Receive(1, 0, 64), 0);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 8, "inside", 6), 0);
  ibv_sge entry = {8, 6, mr->lkey};
  ibv_send_wr request = {};
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(end.Post(request), 0);
  EXPECT_EQ(peer.Wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(peer.Text(0, 6), "inside");
  EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST(DeviceMemoryTest, ThereIsAsMuchAsTheDeviceSays) {
  TestEnd end;
  ibv_device_attr_ex attributes;
  ASSERT_EQ(ibv_query_device_ex(end.context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.max_dm_size, kDeviceMemoryBytesMax);
  ibv_dm* all = Allocate(end, kDeviceMemoryBytesMax, 12);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(Allocate(end, 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(end.verbs.close_device(end.context), EBUSY);
  EXPECT_EQ(ibv_free_dm(all), 0);
  EXPECT_EQ(Allocate(end, kDeviceMemoryBytesMax + 1), nullptr);
  EXPECT_EQ(Allocate(end, 0), nullptr);
  EXPECT_EQ(Allocate(end, 1, 13), nullptr) << "aligned to more than a page";
  EXPECT_EQ(errno, EINVAL);
}

TEST(DeviceMemoryTest, ARegionLiesInItAndIsZeroBased) {
  TestEnd end;
  ibv_dm* dm = Allocate(end, 100);
  const auto error = [&](uint64_t offset, size_t length, unsigned int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_dm_mr(end.pd, dm, offset, length, access);
    if (mr == nullptr) return errno;
    EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
    return 0;
  };
  EXPECT_EQ(error(0, 100, kRights), 0);
  EXPECT_EQ(error(1, 100, kRights), EINVAL);
  EXPECT_EQ(error(101, 1, kRights), EINVAL);
  EXPECT_EQ(error(0, 0, kRights), 0) << "nothing of it";
  EXPECT_EQ(error(0, 1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  EXPECT_EQ(error(0, 1, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE),
            EINVAL);
  EXPECT_EQ(error(0, 1, kRights | IBV_ACCESS_ON_DEMAND), EINVAL);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace verbena::soft
