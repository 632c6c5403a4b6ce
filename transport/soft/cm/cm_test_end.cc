#include "transport/soft/cm/cm_test_end.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/full/full_provider.h"

namespace verbena::soft {
namespace {

using transport::CmEvent;
using transport::CmEventName;
using transport::CmId;

constexpr absl::Duration kPatience = absl::Seconds(10);

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

}  // namespace

const transport::Provider& TestProvider() { return FullSoftProvider(); }

CmTestEnd::CmTestEnd()
    : channel_(*transport::EventChannel::Create(TestProvider())) {}

CmTestEnd::~CmTestEnd() {
  DestroyOwnQp();
  id_.reset();
  listener_.reset();
  const transport::VerbsOps& verbs = TestProvider().verbs;
  if (mr_ != nullptr) {
    EXPECT_EQ(verbs.dereg_mr(mr_), 0);
  }
  if (cq_ != nullptr) {
    EXPECT_EQ(verbs.destroy_cq(cq_), 0);
    EXPECT_EQ(verbs.destroy_comp_channel(completions_), 0);
  }
  if (pd_ != nullptr) {
    EXPECT_EQ(verbs.dealloc_pd(pd_), 0);
  }
}

void CmTestEnd::ExpectOk(const absl::Status& status) {
  EXPECT_TRUE(status.ok()) << status;
}

base::SocketAddress CmTestEnd::Listen(absl::string_view address, int backlog) {
  listener_ = *CmId::Create(TestProvider(), channel_);
  ExpectOk(listener_->BindAddr(*base::SocketAddress::ParseNumeric(address)));
  ExpectOk(listener_->Listen(backlog));
  return listener_->LocalAddress();
}

CmEvent CmTestEnd::Expect(rdma_cm_event_type type) {
  const auto event = channel_.WaitEvent(kPatience);
  ExpectOk(event.status());
  if (!event.ok() || !event->has_value()) {
    ADD_FAILURE() << "nothing happened instead of " << CmEventName(type);
    return CmEvent();
  }
  EXPECT_EQ((*event)->type, type)
      << CmEventName((*event)->type) << " instead of " << CmEventName(type)
      << ", status " << (*event)->status;
  return **event;
}

void CmTestEnd::ExpectNothing() {
  const auto event = channel_.Poll();
  ExpectOk(event.status());
  if (event.ok() && event->has_value()) {
    ADD_FAILURE() << CmEventName((*event)->type) << " instead of nothing";
  }
}

void CmTestEnd::Resolve(const base::SocketAddress& peer) {
  id_.reset();
  id_ = *CmId::Create(TestProvider(), channel_);
  ExpectOk(id_->ResolveAddr({}, peer, kPatience));
  Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ExpectOk(id_->ResolveRoute(kPatience));
  Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  CreateQp();
}

absl::Status CmTestEnd::Connect(absl::string_view private_data) {
  if (own_qp_ == nullptr) {
    return id_->Connect({.private_data = Bytes(private_data),
                         .responder_resources = 4,
                         .initiator_depth = 2});
  }
  rdma_conn_param parameters = Parameters(private_data, 4, 2);
  return TestProvider().cm.connect(id_->get(), &parameters) == 0
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, "connect");
}

CmEvent CmTestEnd::TakeRequest() {
  const CmEvent event = Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return event;
  id_.reset();
  id_ = CmId::Adopt(TestProvider(), event.id);
  CreateQp();
  return event;
}

void CmTestEnd::TakeRequestReady() {
  DriveOwnQueuePairs();
  TakeRequest();
  for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    EXPECT_EQ(Modify(to), 0);
  }
}

absl::Status CmTestEnd::Accept(absl::string_view private_data) {
  if (own_qp_ != nullptr) {
    rdma_conn_param parameters = Parameters(private_data, 2, 4);
    return TestProvider().cm.accept(id_->get(), &parameters) == 0
               ? absl::OkStatus()
               : absl::ErrnoToStatus(errno, "accept");
  }
  return id_->Accept({.private_data = Bytes(private_data),
                      .responder_resources = 2,
                      .initiator_depth = 4});
}

std::string CmTestEnd::Data(const CmEvent& event) {
  std::string data(event.private_data().begin(), event.private_data().end());
  data.resize(data.find_last_not_of('\0') + 1);
  return data;
}

void CmTestEnd::CreateQp() {
  const transport::VerbsOps& verbs = TestProvider().verbs;
  if (pd_ == nullptr) {
    pd_ = verbs.alloc_pd(id_->context());
    completions_ = verbs.create_comp_channel(id_->context());
    CHECK(completions_ != nullptr);
    cq_ = verbs.create_cq(id_->context(), 64, nullptr, completions_, 0);
    mr_ = verbs.reg_mr(pd_, receive_buffer_.data(), receive_buffer_.size(),
                       IBV_ACCESS_LOCAL_WRITE);
    CHECK(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr);
  }
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = 16,
                    .max_recv_wr = 16,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 64};
  if (!drives_own_) return ExpectOk(id_->CreateQp(pd_, &attributes));
  DestroyOwnQp();
  own_qp_ = verbs.create_qp(pd_, &attributes);
  CHECK(own_qp_ != nullptr);
}

void CmTestEnd::DestroyOwnQp() {
  if (own_qp_ == nullptr) return;
  EXPECT_EQ(TestProvider().verbs.destroy_qp(own_qp_), 0);
  own_qp_ = nullptr;
}

rdma_conn_param CmTestEnd::Parameters(absl::string_view private_data,
                                      uint8_t resources, uint8_t depth) {
  rdma_conn_param parameters = {};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(private_data.size());
  parameters.responder_resources = resources;
  parameters.initiator_depth = depth;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  parameters.qp_num = own_qp_->qp_num;
  return parameters;
}

int CmTestEnd::Modify(ibv_qp_state state) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = state;
  int mask = 0;
  if (InitQpAttr(id_->get(), &attributes, &mask) != 0) return errno;
  return TestProvider().verbs.modify_qp(qp(), &attributes, mask);
}

void CmTestEnd::PostReceive() {
  ibv_sge sge = {.addr = reinterpret_cast<uint64_t>(receive_buffer_.data()),
                 .length = static_cast<uint32_t>(receive_buffer_.size()),
                 .lkey = mr_->lkey};
  ibv_recv_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp(), &wr, &bad), 0);
}

void CmTestEnd::Send(absl::string_view text) {
  ibv_sge sge = {.addr = reinterpret_cast<uint64_t>(text.data()),
                 .length = static_cast<uint32_t>(text.size()),
                 .lkey = 0};
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp(), &wr, &bad), 0);
}

ibv_wc_status CmTestEnd::Complete() {
  const absl::Time deadline = base::Now() + kPatience;
  ibv_wc completion = {};
  while (ibv_poll_cq(cq_, 1, &completion) == 0) {
    if (base::Now() > deadline) {
      ADD_FAILURE() << "no completion";
      return IBV_WC_GENERAL_ERR;
    }
  }
  return completion.status;
}

void CmTestEnd::Arm() { EXPECT_EQ(ibv_req_notify_cq(cq_, 0), 0); }

ibv_wc_status CmTestEnd::CompleteAsleep() {
  pollfd readable = {.fd = completions_->fd, .events = POLLIN, .revents = 0};
  const int ready = ::poll(
      &readable, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience)));
  if (ready != 1) {
    ADD_FAILURE() << "no completion has woken the sleeper";
    return IBV_WC_GENERAL_ERR;
  }
  const transport::VerbsOps& verbs = TestProvider().verbs;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(verbs.get_cq_event(completions_, &cq, &context), 0);
  verbs.ack_cq_events(cq, 1);
  return Complete();
}

ibv_qp_state CmTestEnd::QpState() {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  EXPECT_EQ(TestProvider().verbs.query_qp(qp(), &attributes, IBV_QP_STATE,
                                          &init_attributes),
            0);
  return attributes.qp_state;
}

}  // namespace verbena::soft
