#include "tests/conformance/cm_end.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/conformance/device.h"
#include "tests/testing/child_process.h"
#include "transport/base/check.h"
#include "transport/verbs/cm_event.h"

namespace verbena::conformance {
namespace {

// Far longer than anything takes, on an emulated processor too.
constexpr int kPatienceMs = 10'000;
constexpr int kQuietMs = 20;

int Errno(int result) { return result == 0 ? 0 : errno; }

sockaddr_in Address(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  CHECK_EQ(inet_pton(AF_INET, testing_support::TestAddress().c_str(),
                     &address.sin_addr),
           1);
  return address;
}

rdma_conn_param Parameters(absl::string_view data, uint8_t retries) {
  rdma_conn_param parameters = {};
  parameters.private_data = data.data();
  parameters.private_data_len = static_cast<uint8_t>(data.size());
  parameters.responder_resources = 4;
  parameters.initiator_depth = 2;
  parameters.retry_count = retries;
  parameters.rnr_retry_count = retries;
  return parameters;
}

bool HasData(rdma_cm_event_type type) {
  return type == RDMA_CM_EVENT_CONNECT_REQUEST ||
         type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED;
}

CmReport ReportOf(const rdma_cm_event& event) {
  CmReport report;
  report.type = event.event;
  report.status = event.status;
  report.id = event.id;
  report.listen_id = event.listen_id;
  if (!HasData(event.event)) return report;
  const rdma_conn_param& parameters = event.param.conn;
  report.responder_resources = parameters.responder_resources;
  report.initiator_depth = parameters.initiator_depth;
  report.retries = parameters.retry_count;
  if (parameters.private_data != nullptr) {
    report.data.assign(static_cast<const char*>(parameters.private_data),
                       parameters.private_data_len);
    report.data.resize(report.data.find_last_not_of('\0') + 1);
  }
  return report;
}

}  // namespace

CmEnd::CmEnd() : channel(Cm().create_event_channel()) {
  CHECK(channel != nullptr) << "errno " << errno;
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

CmEnd::~CmEnd() {
  DestroyId();
  StopListening();
  Cm().destroy_event_channel(channel);
  if (mr_ != nullptr) CHECK_EQ(Verbs().dereg_mr(mr_), 0);
  if (cq_ != nullptr) CHECK_EQ(Verbs().destroy_cq(cq_), 0);
  if (pd_ != nullptr) CHECK_EQ(Verbs().dealloc_pd(pd_), 0);
}

uint16_t CmEnd::Listen(int backlog) {
  CHECK_EQ(Cm().create_id(channel, &listener, this, RDMA_PS_TCP), 0);
  sockaddr_in address = Address(0);
  EXPECT_EQ(Cm().bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), 0);
  EXPECT_EQ(Cm().listen(listener, backlog), 0);
  return ntohs(Cm().get_src_port(listener));
}

void CmEnd::StopListening() {
  if (listener == nullptr) return;
  EXPECT_EQ(Cm().destroy_id(listener), 0);
  listener = nullptr;
}

void CmEnd::CreateId() {
  DestroyId();
  CHECK_EQ(Cm().create_id(channel, &id, this, RDMA_PS_TCP), 0);
}

void CmEnd::DestroyId() {
  if (id == nullptr) return;
  if (id->qp != nullptr) Cm().destroy_qp(id);
  EXPECT_EQ(Cm().destroy_id(id), 0);
  id = nullptr;
}

int CmEnd::ResolveAddr(uint16_t port) {
  sockaddr_in address = Address(port);
  return Errno(Cm().resolve_addr(
      id, nullptr, reinterpret_cast<sockaddr*>(&address), kPatienceMs));
}

int CmEnd::ResolveRoute() { return Errno(Cm().resolve_route(id, kPatienceMs)); }

void CmEnd::Resolve(uint16_t port) {
  CreateId();
  EXPECT_EQ(ResolveAddr(port), 0);
  Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(ResolveRoute(), 0);
  Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(CreateQp(), 0);
}

int CmEnd::CreateQp() {
  if (pd_ == nullptr) {
    pd_ = Verbs().alloc_pd(id->verbs);
    cq_ = Verbs().create_cq(id->verbs, 64, nullptr, nullptr, 0);
    mr_ = Verbs().reg_mr(pd_, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE);
    CHECK(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr);
  }
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap = {16, 16, 1, 1, 64};
  return Errno(Cm().create_qp(id, pd_, &attributes));
}

int CmEnd::Connect(absl::string_view data) {
  rdma_conn_param parameters = Parameters(data, retries);
  return Errno(Cm().connect(id, &parameters));
}

void CmEnd::Dial(uint16_t port, absl::string_view data) {
  Resolve(port);
  EXPECT_EQ(Connect(data), 0);
}

CmReport CmEnd::TakeRequest() {
  CmReport request = Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  if (request.type != RDMA_CM_EVENT_CONNECT_REQUEST) return request;
  EXPECT_EQ(request.listen_id, listener);
  EXPECT_EQ(request.id->context, this);  // The listener's.
  DestroyId();
  id = request.id;
  EXPECT_EQ(CreateQp(), 0);
  return request;
}

int CmEnd::Accept(absl::string_view data) {
  rdma_conn_param parameters = Parameters(data, retries);
  return Errno(Cm().accept(id, &parameters));
}

int CmEnd::Reject(absl::string_view data) {
  return Errno(Cm().reject(id, data.data(), static_cast<uint8_t>(data.size())));
}

int CmEnd::Disconnect() { return Errno(Cm().disconnect(id)); }

int CmEnd::Poll(CmReport* report) {
  rdma_cm_event* event = nullptr;
  if (Cm().get_cm_event(channel, &event) != 0) return errno;
  *report = ReportOf(*event);
  return Errno(Cm().ack_cm_event(event));
}

CmReport CmEnd::Expect(rdma_cm_event_type type) {
  pollfd wait = {channel->fd, POLLIN, 0};
  CmReport report;
  if (poll(&wait, 1, kPatienceMs) != 1 || Poll(&report) != 0) {
    ADD_FAILURE() << "nothing instead of " << transport::CmEventName(type);
    return report;
  }
  EXPECT_EQ(report.type, type)
      << transport::CmEventName(report.type) << " instead of "
      << transport::CmEventName(type) << ", status " << report.status;
  return report;
}

void CmEnd::ExpectNothing() {
  pollfd wait = {channel->fd, POLLIN, 0};
  CmReport report;
  if (poll(&wait, 1, kQuietMs) == 1 && Poll(&report) == 0) {
    ADD_FAILURE() << transport::CmEventName(report.type)
                  << " instead of nothing";
  }
}

ibv_qp_state CmEnd::State() const {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init_attributes = {};
  EXPECT_EQ(
      Verbs().query_qp(id->qp, &attributes, IBV_QP_STATE, &init_attributes), 0);
  return attributes.qp_state;
}

void CmEnd::PostReceive() {
  ibv_sge entry = {reinterpret_cast<uint64_t>(memory_.data()),
                   static_cast<uint32_t>(memory_.size()), mr_->lkey};
  ibv_recv_wr receive = {};
  receive.sg_list = &entry;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(id->qp, &receive, &bad), 0);
}

void CmEnd::Send(absl::string_view text) {
  ibv_sge entry = {reinterpret_cast<uint64_t>(text.data()),
                   static_cast<uint32_t>(text.size()), 0};
  ibv_send_wr send = {};
  send.sg_list = &entry;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(id->qp, &send, &bad), 0);
}

ibv_wc CmEnd::Wait() {
  const absl::Time deadline = absl::Now() + absl::Milliseconds(kPatienceMs);
  ibv_wc completion = {};
  while (ibv_poll_cq(cq_, 1, &completion) == 0) {
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "no completion came";
      completion.status = IBV_WC_GENERAL_ERR;
      return completion;
    }
  }
  return completion;
}

void Connect(CmEnd& client, CmEnd& server) {
  client.Dial(server.Listen());
  server.TakeRequest();
  EXPECT_EQ(server.Accept(""), 0);
  client.Expect(RDMA_CM_EVENT_ESTABLISHED);
  server.Expect(RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace verbena::conformance
