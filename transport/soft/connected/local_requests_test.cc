// Requests that need no peer, when the queue pair fails before the peer has
// acknowledged anything. What else they do is in tests/conformance.

#include <gtest/gtest.h>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/connected/held_link.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions WithWindows() {
  TestEndOptions options;
  options.access |= IBV_ACCESS_MW_BIND;
  return options;
}

// Binds a window of type 2 to memory of `end`, without a completion.
int Bind(TestEnd& end, ibv_mw* window) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = {end.mr, end.Address(0), 64,
                               IBV_ACCESS_REMOTE_WRITE};
  const int error = end.Post(request);
  window->rkey = request.bind_mw.rkey;
  return error;
}

// Its user would take the window for one that is still open.
TEST(LocalRequestTest, AnInvalidationThatTookEffectIsNotFlushed) {
  TestEnd a(WithWindows());
  TestEnd b;
  ConnectManually(a, b);
  ibv_mw* const window = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  ConnectedQueuePair::From(b.qp)->held_link().Begin(HeldLink::Hold::kStalled);
  ASSERT_EQ(Bind(a, window), 0);
  ASSERT_EQ(a.Invalidate(1, window->rkey), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_WR_FLUSH_ERR);
  ConnectedQueuePair::From(b.qp)->held_link().Release();
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

}  // namespace
}  // namespace verbena::soft
