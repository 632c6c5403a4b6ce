#include "transport/soft/full/full_provider.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>

#include "transport/soft/soft_provider.h"

namespace verbena::soft {
namespace {

ibv_context* Open(const transport::VerbsOps& verbs) {
  ibv_device** const devices = verbs.get_device_list(nullptr);
  ibv_context* const context = verbs.open_device(devices[0]);
  verbs.free_device_list(devices);
  return context;
}

template <typename Ops>
void ExpectNoNull(const Ops& ops) {
  void* entries[sizeof(ops) / sizeof(void*)];
  std::memcpy(entries, &ops, sizeof(ops));
  for (const void* entry : entries) EXPECT_NE(entry, nullptr);
}

TEST(FullProviderTest, EveryEntryIsFilled) {
  ExpectNoNull(FullSoftProvider().verbs);
  ExpectNoNull(FullSoftProvider().cm);
}

// The context and the objects that the verbs of RPC can make.
class VerbsOfRpcTest : public testing::Test {
 protected:
  VerbsOfRpcTest() {
    attributes_.send_cq = attributes_.recv_cq = cq_;
    attributes_.cap = {1, 1, 1, 1, 0};
    attributes_.qp_type = IBV_QPT_RC;
    qp_ = verbs_.create_qp(pd_, &attributes_);
  }
  ~VerbsOfRpcTest() override {
    EXPECT_EQ(verbs_.destroy_qp(qp_), 0);
    EXPECT_EQ(verbs_.destroy_cq(cq_), 0);
    EXPECT_EQ(verbs_.dealloc_pd(pd_), 0);
    EXPECT_EQ(verbs_.close_device(context_), 0);
  }

  // Whether a verb that makes an object has refused with EOPNOTSUPP.
  static bool IsRefused(const void* made) {
    return made == nullptr && errno == EOPNOTSUPP;
  }

  const transport::VerbsOps& verbs_ = SoftProvider().verbs;
  ibv_context* const context_ = Open(verbs_);
  ibv_pd* const pd_ = verbs_.alloc_pd(context_);
  ibv_cq* const cq_ = verbs_.create_cq(context_, 1, nullptr, nullptr, 0);
  ibv_qp_init_attr attributes_ = {};
  ibv_qp* qp_ = nullptr;
};

TEST_F(VerbsOfRpcTest, LackConnectionsThatAreMadeManually) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  EXPECT_EQ(verbs_.modify_qp(qp_, &attributes,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                 IBV_QP_ACCESS_FLAGS),
            0);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = 2;
  attributes.ah_attr.port_num = 1;
  EXPECT_EQ(
      verbs_.modify_qp(qp_, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      EOPNOTSUPP);
  attributes_.qp_type = IBV_QPT_UC;
  errno = 0;
  EXPECT_TRUE(IsRefused(verbs_.create_qp(pd_, &attributes_)))
      << "it could only be connected manually";
}

TEST_F(VerbsOfRpcTest, LackThoseOfDatagrams) {
  attributes_.qp_type = IBV_QPT_UD;
  errno = 0;
  EXPECT_TRUE(IsRefused(verbs_.create_qp(pd_, &attributes_)));
  errno = 0;
  ibv_ah_attr path = {};
  EXPECT_TRUE(IsRefused(verbs_.create_ah(pd_, &path)));
  EXPECT_EQ(verbs_.destroy_ah(nullptr), EOPNOTSUPP);
  const ibv_gid group = {};
  EXPECT_EQ(verbs_.attach_mcast(qp_, &group, 0), EOPNOTSUPP);
  EXPECT_EQ(verbs_.detach_mcast(qp_, &group, 0), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(verbs_.init_ah_from_wc(context_, 1, nullptr, nullptr, &path), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(VerbsOfRpcTest, LackTheExtendedOnes) {
  EXPECT_TRUE(IsRefused(verbs_.qp_to_qp_ex(qp_)));
  EXPECT_EQ(verbs_.resize_cq(cq_, 2), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(verbs_.rereg_mr(nullptr, 0, pd_, nullptr, 0, 0), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_async_event event = {};
  EXPECT_EQ(verbs_.get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_cq_init_attr_ex cq = {};
  EXPECT_TRUE(IsRefused(ibv_create_cq_ex(context_, &cq)));
  errno = 0;
  ibv_qp_init_attr_ex qp = {};
  EXPECT_TRUE(IsRefused(ibv_create_qp_ex(context_, &qp)));
  errno = 0;
  ibv_alloc_dm_attr memory = {};
  EXPECT_TRUE(IsRefused(ibv_alloc_dm(context_, &memory)));
  errno = 0;
  ibv_td_init_attr domain = {};
  EXPECT_TRUE(IsRefused(ibv_alloc_td(context_, &domain)));
  ibv_device_attr_ex attributes;
  EXPECT_EQ(ibv_query_device_ex(context_, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.max_dm_size, 0u);
  EXPECT_EQ(attributes.completion_timestamp_mask, 0u);
  ibv_values_ex values = {};
  EXPECT_EQ(ibv_query_rt_values_ex(context_, &values), EOPNOTSUPP);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0),
            EOPNOTSUPP);
}

// The kernel's answer for a port space that it does not have.
TEST_F(VerbsOfRpcTest, LackThePortSpaceUdp) {
  const transport::CmOps& cm = SoftProvider().cm;
  rdma_event_channel* const channel = cm.create_event_channel();
  rdma_cm_id* id = nullptr;
  errno = 0;
  EXPECT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_UDP), -1);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
  cm.destroy_event_channel(channel);
}

// Identifiers of one provider are bound here, those of the other there.
TEST(FullProviderTest, ContextsOfItsIdentifiersHaveAllVerbs) {
  for (const transport::Provider* provider :
       {&SoftProvider(), &FullSoftProvider()}) {
    const transport::CmOps& cm = provider->cm;
    rdma_event_channel* const channel = cm.create_event_channel();
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(cm.create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(cm.bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
    ASSERT_NE(id->verbs, nullptr);
    EXPECT_EQ(verbs_get_ctx(id->verbs)->alloc_td != nullptr,
              provider == &FullSoftProvider());
    EXPECT_EQ(cm.destroy_id(id), 0);
    cm.destroy_event_channel(channel);
  }
}

}  // namespace
}  // namespace verbena::soft
