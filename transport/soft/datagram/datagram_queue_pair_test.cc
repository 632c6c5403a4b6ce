// The send queue of datagrams. What arrives and what does not is tested in
// tests/conformance.

#include "transport/soft/datagram/datagram_queue_pair.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TEST(DatagramQueuePairTest, ABurstIsHeldUpRatherThanLost) {
  TestEndOptions options;
  options.send_depth = options.receive_depth = 256;
  options.completions = 512;
  DatagramTestEnd a(options);
  DatagramTestEnd b(options);
  ibv_ah* ah = a.Handle(b.gid.gid);
  for (uint64_t i = 0; i < 256; ++i) ASSERT_EQ(b.Receive(i, 0, 4200), 0);
  for (uint64_t i = 0; i < 256; ++i) {
    ASSERT_EQ(
        a.SendDatagram(
            {.ah = ah, .number = b.qp->qp_num, .wr_id = i, .length = 4096}),
        0);
  }
  for (uint64_t i = 0; i < 256; ++i) ASSERT_EQ(b.Wait(&a).wr_id, i);
}

TEST(DatagramQueuePairTest, TheSendQueueIsFullUntilCompletionsArePolled) {
  TestEndOptions options;
  options.send_depth = 2;
  DatagramTestEnd a(options);
  DatagramTestEnd b;
  ASSERT_EQ(a.SendTo(b, 1, 0, 1, 0), 0);
  ASSERT_EQ(a.SendTo(b, 2, 0, 1), 0);
  EXPECT_EQ(a.SendTo(b, 3, 0, 1), ENOMEM);
  EXPECT_EQ(a.Wait().wr_id, 2u);
  EXPECT_EQ(a.SendTo(b, 3, 0, 1), 0);
}

TEST(DatagramQueuePairTest, RequestsThatAreNoDatagramsAreRefused) {
  DatagramTestEnd a;
  ibv_send_wr request = {};
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(a.Post(request), EINVAL);  // Without an address handle.
  TestEnd other;
  ibv_ah_attr path = a.Path(a.gid.gid);
  ibv_ah* const foreign = a.verbs.create_ah(other.pd, &path);
  request.wr.ud = {foreign, 5, transport::kTestQkey};
  EXPECT_EQ(a.Post(request), EINVAL) << "of another context";
  EXPECT_EQ(a.verbs.destroy_ah(foreign), 0);
}

// A WRITE has its remote address where a datagram has its address handle.
TEST(DatagramQueuePairTest, ARequestOfAConnectionHasNoHandle) {
  DatagramTestEnd a;
  ASSERT_EQ(a.Write(1, 0, 8, 0x123, 0), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_SQE);
}

}  // namespace
}  // namespace verbena::soft
