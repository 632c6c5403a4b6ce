// A program that is linked to the system's libraries finds the software device
// there. The test runs itself again with the library preloaded, whose path is
// its first argument; the second says whether the system's devices are hidden.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "transport/verbs/system_provider.h"

namespace verbena::soft {
namespace {

constexpr char kPreload[] = "LD_PRELOAD";
constexpr char kHide[] = "VERBENA_SOFT_ONLY";

class PreloadTest : public testing::Test {
 protected:
  // The context of soft0, which is the only device, or the last.
  void SetUp() override {
    int count = 0;
    ibv_device** list = verbs_.get_device_list(&count);
    ASSERT_GE(count, 1);
    if (std::getenv(kHide) != nullptr) {
      EXPECT_EQ(count, 1);
    }
    EXPECT_EQ(list[count], nullptr);
    EXPECT_STREQ(verbs_.get_device_name(list[count - 1]), "soft0");
    context_ = verbs_.open_device(list[count - 1]);
    verbs_.free_device_list(list);
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(verbs_.close_device(context_), 0); }

  const transport::VerbsOps& verbs_ = transport::SystemProvider().verbs;
  const transport::CmOps& cm_ = transport::SystemProvider().cm;
  ibv_context* context_ = nullptr;
};

// qperf does.
TEST_F(PreloadTest, TheListOfDevicesIsABlockThatFreeTakes) {
  ibv_device** const list = verbs_.get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  std::free(list);
}

TEST_F(PreloadTest, TheDeviceHasNamesAndAnIndex) {
  EXPECT_STREQ(context_->device->dev_name, "soft0");
  EXPECT_STRNE(context_->device->dev_path, "");
  EXPECT_STRNE(context_->device->ibdev_path, "");
  EXPECT_GE(ibv_get_device_index(context_->device), 0);
}

// UCX looks for it before it uses a device.
TEST_F(PreloadTest, TheDeviceSeemsToHaveACharacterDevice) {
  constexpr char kNode[] = "/dev/infiniband/soft0";
  struct stat node;
  ASSERT_EQ(stat(kNode, &node), 0);
  EXPECT_TRUE(S_ISCHR(node.st_mode));
  EXPECT_EQ(access(kNode, R_OK | W_OK), 0);
  EXPECT_EQ(stat("/dev/infiniband/soft", &node), -1);
  EXPECT_EQ(access("/dev/infiniband/soft", F_OK), -1);
  ASSERT_EQ(stat("/", &node), 0);
  EXPECT_TRUE(S_ISDIR(node.st_mode));
  EXPECT_EQ(access("/", R_OK), 0);
}

// There are programs that send keys in six hexadecimal digits.
TEST_F(PreloadTest, KeysHaveNoMoreThan24Bits) {
  ibv_pd* const pd = verbs_.alloc_pd(context_);
  char memory[64];
  for (int i = 0; i < 20; ++i) {
    ibv_mr* const mr = verbs_.reg_mr(pd, memory, sizeof(memory), 0);
    ASSERT_NE(mr, nullptr);
    EXPECT_LT(mr->rkey, 1u << 24);
    EXPECT_EQ(verbs_.dereg_mr(mr), 0);
  }
  EXPECT_EQ(verbs_.dealloc_pd(pd), 0);
}

TEST_F(PreloadTest, ThePortsAreUp) {
  ibv_port_attr port;
  for (const uint8_t number : {1, 2}) {
    ASSERT_EQ(verbs_.query_port(context_, number, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  }
  EXPECT_NE(verbs_.query_port(context_, 99, &port), 0);
}

TEST_F(PreloadTest, EveryEntryOfTheGidTableIsOfRoceV2) {
  ibv_gid_entry entries[64];
  const ssize_t count = ibv_query_gid_table(context_, entries, 64, 0);
  ASSERT_GT(count, 0);
  for (ssize_t i = 0; i < count; ++i) {
    EXPECT_EQ(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
    EXPECT_EQ(entries[i].port_num, i < count / 2 ? 1 : 2) << "of equal tables";
  }
}

TEST_F(PreloadTest, MemoryIsRegisteredByMacroAndByFunction) {
  ibv_pd* pd = verbs_.alloc_pd(context_);
  char bytes[64];
  ibv_mr* mr = verbs_.reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  // A wish of the caller that the device may ignore takes another function.
  ibv_mr* relaxed =
      verbs_.reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(relaxed, nullptr);
  EXPECT_EQ(verbs_.dereg_mr(relaxed), 0);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_EQ(verbs_.dereg_mr(mr), 0);
  EXPECT_EQ(verbs_.dealloc_pd(pd), 0);
}

TEST_F(PreloadTest, WhatIsDestroyedTwiceIsRefusedIfTheDeviceIsAlone) {
  ibv_pd* const pd = verbs_.alloc_pd(context_);
  char bytes[64];
  ibv_mr* const mr =
      verbs_.reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
  ibv_cq* const cq = verbs_.create_cq(context_, 4, nullptr, nullptr, 0);
  EXPECT_EQ(verbs_.dereg_mr(mr), 0);
  EXPECT_EQ(verbs_.dereg_mr(mr), EINVAL);
  EXPECT_EQ(verbs_.destroy_cq(cq), 0);
  EXPECT_EQ(verbs_.destroy_cq(cq), EINVAL);
  EXPECT_EQ(verbs_.dealloc_pd(pd), 0);
  EXPECT_EQ(verbs_.dealloc_pd(pd), EINVAL);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(PreloadTest, ACompletionQueueIsResized) {
  ibv_cq* cq = verbs_.create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_resize_cq(cq, 64), 0);
  EXPECT_GE(cq->cqe, 64);
  EXPECT_EQ(verbs_.destroy_cq(cq), 0);
}

// If there are other devices, the connection manager is theirs.
TEST_F(PreloadTest, TheConnectionManagerIsOfTheSameDeviceIfThatIsAlone) {
  rdma_cm_id* id = nullptr;
  // An identifier without a channel is something that only the library knows.
  ASSERT_EQ(cm_.create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(cm_.bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
  ASSERT_NE(id->verbs, nullptr);
  EXPECT_EQ(id->verbs->device, context_->device);
  EXPECT_NE(cm_.get_src_port(id), 0);
  EXPECT_EQ(cm_.destroy_id(id), 0);
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  using verbena::soft::kHide;
  using verbena::soft::kPreload;
  if (argc > 2 && std::getenv(kPreload) == nullptr) {
    setenv(kPreload, realpath(argv[1], nullptr), 1);
    if (std::string(argv[2]) == "alone") setenv(kHide, "1", 1);
    execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
