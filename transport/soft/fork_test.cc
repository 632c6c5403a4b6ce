// The device in a process that was forked from one that has used it, or that
// has not. The test's own process never uses it.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "transport/soft/soft_provider.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// Runs `body` in a child of this process, and returns whether it ended well:
// the expectations in it that fail are printed there.
bool HoldsInChild(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

ibv_context* Open() {
  const transport::VerbsOps& verbs = SoftProvider().verbs;
  ibv_device** list = verbs.get_device_list(nullptr);
  ibv_context* const context = verbs.open_device(list[0]);
  verbs.free_device_list(list);
  return context;
}

int BindAnIdentifier() {
  const transport::CmOps& cm = SoftProvider().cm;
  rdma_event_channel* const channel = cm.create_event_channel();
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in loopback = {};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return cm.bind_addr(id, reinterpret_cast<sockaddr*>(&loopback));
}

TEST(ForkTest, AChildOfAProcessThatUsesTheDeviceIsRefused) {
  EXPECT_TRUE(HoldsInChild([] {
    TestEnd end;
    EXPECT_EQ(BindAnIdentifier(), 0);
    EXPECT_TRUE(HoldsInChild([&] {
      EXPECT_EQ(Open(), nullptr);
      EXPECT_EQ(errno, EOPNOTSUPP);
      EXPECT_EQ(BindAnIdentifier(), -1);
      EXPECT_EQ(errno, EOPNOTSUPP);
      ibv_qp_init_attr attributes = {};
      attributes.send_cq = attributes.recv_cq = end.cq;
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
      EXPECT_EQ(end.verbs.create_qp(end.pd, &attributes), nullptr);
      EXPECT_EQ(errno, EOPNOTSUPP);
    }));
  }));
}

TEST(ForkTest, AChildOfAProcessThatHasOnlyLookedAtTheDeviceUsesIt) {
  EXPECT_TRUE(HoldsInChild([] {
    EXPECT_NE(Open(), nullptr);
    EXPECT_TRUE(HoldsInChild([] {
      TestEnd a;
      TestEnd b;
      ConnectManually(a, b);
      ASSERT_EQ(b.Receive(1, 64, 64), 0);
      a.Fill(0, "hello");
      ASSERT_EQ(a.Send(2, 0, 5), 0);
      EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
      EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
      EXPECT_EQ(BindAnIdentifier(), 0);
    }));
  }));
}

}  // namespace
}  // namespace verbena::soft
