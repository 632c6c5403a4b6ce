#include "transport/soft/extended/parent_domain.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

ibv_pd* Parent(TestEnd& end, ibv_td* td = nullptr) {
  ibv_parent_domain_init_attr attributes = {};
  attributes.pd = end.pd;
  attributes.td = td;
  return ibv_alloc_parent_domain(end.context, &attributes);
}

TEST(ParentDomainTest, WhatIsMadeInEitherDomainWorksWithTheOther) {
  TestEndOptions options;
  options.shared_receives = 4;
  TestEnd end(options);
  TestEnd peer;
  ibv_pd* parent = Parent(end);
  ASSERT_NE(parent, nullptr);
  // The queue pair is the parent's, the memory that of its protection domain.
  EXPECT_EQ(end.verbs.destroy_qp(end.qp), 0);
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.srq = end.srq;
  attributes.cap = {4, 0, 1, 0, 0};
  attributes.qp_type = IBV_QPT_RC;
  end.qp = end.verbs.create_qp(parent, &attributes);
  ASSERT_NE(end.qp, nullptr);
  EXPECT_EQ(end.qp->pd, parent);
  ConnectManually(end, peer);
  ASSERT_EQ(end.Receive(1, 0, 64), 0);
  ASSERT_EQ(peer.Send(1, 0, 8), 0);
  EXPECT_EQ(end.Wait(&peer).status, IBV_WC_SUCCESS);
  ASSERT_EQ(peer.Write(2, 0, 8, end.Address(0), end.mr->rkey), 0);
  EXPECT_EQ(peer.Wait(&end).status, IBV_WC_SUCCESS);
  EXPECT_EQ(peer.Wait(&end).status, IBV_WC_SUCCESS);
  // And the other way round: memory of the parent.
  ibv_mr* mr = end.verbs.reg_mr(parent, end.memory, 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(end.verbs.dealloc_pd(parent), EBUSY);
  EXPECT_EQ(end.verbs.dereg_mr(mr), 0);
  EXPECT_EQ(end.verbs.destroy_qp(end.qp), 0);
  end.qp = nullptr;
  EXPECT_EQ(end.verbs.dealloc_pd(parent), 0);
}

TEST(ParentDomainTest, WhatItWasMadeOfIsBusy) {
  TestEnd end;
  ibv_td_init_attr attributes = {};
  ibv_td* td = ibv_alloc_td(end.context, &attributes);
  ASSERT_NE(td, nullptr);
  ibv_pd* pd = end.verbs.alloc_pd(end.context);
  ibv_parent_domain_init_attr wanted = {};
  wanted.pd = pd;
  wanted.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(end.context, &wanted);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), EBUSY);
  EXPECT_EQ(end.verbs.dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), 0);
}

TEST(ParentDomainTest, ACompletionQueueHoldsTheOneThatItWasMadeWith) {
  TestEnd end;
  ibv_parent_domain_init_attr domain = {};
  domain.pd = end.pd;
  ibv_pd* const parent = ibv_alloc_parent_domain(end.context, &domain);
  ASSERT_NE(parent, nullptr);
  ibv_cq_init_attr_ex attributes = {};
  attributes.cqe = 4;
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attributes.parent_domain = parent;
  ibv_cq_ex* const cq = ibv_create_cq_ex(end.context, &attributes);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(end.verbs.dealloc_pd(parent), EBUSY);
  EXPECT_EQ(end.verbs.destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(end.verbs.dealloc_pd(parent), 0);
}

TEST(ParentDomainTest, WhatIsNotHonouredIsRefused) {
  TestEnd end;
  ibv_td_init_attr unknown = {.comp_mask = 1};
  EXPECT_EQ(ibv_alloc_td(end.context, &unknown), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_parent_domain_init_attr attributes = {};
  EXPECT_EQ(ibv_alloc_parent_domain(end.context, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL) << "of no protection domain";
  attributes.pd = end.pd;
  attributes.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_EQ(ibv_alloc_parent_domain(end.context, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  TestEnd other;
  attributes.pd = other.pd;
  attributes.comp_mask = 0;
  EXPECT_EQ(ibv_alloc_parent_domain(end.context, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL) << "of another context";
}

}  // namespace
}  // namespace verbena::soft
