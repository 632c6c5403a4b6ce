#include "tools/rpc_bench/verbs_end.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/error.h"
#include "transport/verbs/work_completion.h"

namespace verbena::bench {

using transport::CmId;
using transport::CompletionChannel;
using transport::CompletionQueue;
using transport::ErrnoStatus;
using transport::ProtectionDomain;
using transport::Provider;
using transport::RegisteredMemory;

absl::StatusOr<VerbsLimits> VerbsLimits::Of(const Provider& provider,
                                            const CmId& id) {
  ibv_device_attr device = {};
  int error = provider.verbs.query_device(id.context(), &device);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  ibv_port_attr port = {};
  error = provider.verbs.query_port(id.context(), id.port_num(), &port);
  if (error != 0) return ErrnoStatus("query_port", "", error);
  return VerbsLimits{
      .work_requests = static_cast<uint32_t>(device.max_qp_wr),
      .message_bytes = port.max_msg_sz,
      .reads = static_cast<uint8_t>(std::clamp(
          std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom), 0,
          UINT8_MAX - 1)),
  };
}

absl::StatusOr<std::unique_ptr<VerbsEnd>> VerbsEnd::Create(
    const Provider& provider, CmId id, const Options& options) {
  std::unique_ptr<VerbsEnd> end =
      absl::WrapUnique(new VerbsEnd(provider, std::move(id), options));
  RETURN_IF_ERROR(end->Open());
  return end;
}

VerbsEnd::VerbsEnd(const Provider& provider, CmId id, const Options& options)
    : provider_(provider),
      options_(options),
      id_(std::move(id)),
      sends_(kChain),
      send_elements_(kChain),
      receives_(kChain),
      receive_elements_(kChain) {
  for (size_t i = 0; i < kChain; ++i) {
    sends_[i] = {};
    sends_[i].sg_list = &send_elements_[i];
    receives_[i] = {};
    receives_[i].sg_list = &receive_elements_[i];
  }
}

absl::Status VerbsEnd::Open() {
  ibv_context* const context = id_.context();
  ASSIGN_OR_RETURN(const VerbsLimits limits, VerbsLimits::Of(provider_, id_));
  const uint32_t deepest =
      std::max(options_.send_depth, options_.receive_depth);
  if (deepest > limits.work_requests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device allows ", limits.work_requests,
                     " work requests in a queue; this needs ", deepest,
                     ": ask for fewer outstanding"));
  }
  ASSIGN_OR_RETURN(pd_, ProtectionDomain::Create(provider_.verbs, context));
  if (options_.events) {
    ASSIGN_OR_RETURN(channel_,
                     CompletionChannel::Create(provider_.verbs, context));
  }
  ASSIGN_OR_RETURN(
      cq_, CompletionQueue::Create(
               provider_.verbs, context,
               static_cast<int>(options_.send_depth + options_.receive_depth),
               options_.events ? &channel_ : nullptr));
  const int access =
      IBV_ACCESS_LOCAL_WRITE |
      (options_.remote_access ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                              : 0);
  ASSIGN_OR_RETURN(
      memory_, RegisteredMemory::Create(pd_, options_.memory_bytes, access));
  // The first touch of a page is not what is to be measured.
  std::memset(memory_.data(), 0, memory_.size());
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq_.get();
  attributes.cap.max_send_wr = options_.send_depth;
  attributes.cap.max_recv_wr = options_.receive_depth;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = options_.inline_bytes;
  attributes.qp_type = IBV_QPT_RC;
  RETURN_IF_ERROR(id_.CreateQp(pd_.get(), &attributes));
  options_.inline_bytes =
      std::min(options_.inline_bytes, attributes.cap.max_inline_data);
  return absl::OkStatus();
}

VerbsEnd::~VerbsEnd() {
  // The peer may have gone first.
  id_.Disconnect().IgnoreError();
  id_.DestroyQp();
}

void VerbsEnd::Queue(const Request& request) {
  if (sends_in_chain_ == kChain) FlushSends();
  ++queued_;
  ibv_sge& element = send_elements_[sends_in_chain_];
  element.addr = address() + request.offset;
  element.length = request.length;
  element.lkey = memory_.lkey();
  ibv_send_wr& work = sends_[sends_in_chain_];
  work.wr_id = queued_;
  work.num_sge = request.length > 0 ? 1 : 0;
  work.opcode = request.opcode;
  work.send_flags = 0;
  if (request.signalled || queued_ % kSignalInterval == 0) {
    work.send_flags |= IBV_SEND_SIGNALED;
  }
  if (request.length <= options_.inline_bytes &&
      request.opcode != IBV_WR_RDMA_READ) {
    work.send_flags |= IBV_SEND_INLINE;
  }
  work.imm_data = request.immediate;
  work.wr.rdma.remote_addr = request.remote_address;
  work.wr.rdma.rkey = request.rkey;
  work.next = nullptr;
  if (sends_in_chain_ > 0) sends_[sends_in_chain_ - 1].next = &work;
  ++sends_in_chain_;
}

void VerbsEnd::QueueReceive(uint64_t tag, size_t offset, uint32_t length) {
  if (receives_in_chain_ == kChain) FlushReceives();
  ibv_sge& element = receive_elements_[receives_in_chain_];
  element.addr = address() + offset;
  element.length = length;
  element.lkey = memory_.lkey();
  ibv_recv_wr& work = receives_[receives_in_chain_];
  work.wr_id = tag;
  work.num_sge = length > 0 ? 1 : 0;
  work.next = nullptr;
  if (receives_in_chain_ > 0) receives_[receives_in_chain_ - 1].next = &work;
  ++receives_in_chain_;
}

void VerbsEnd::FlushSends() {
  if (sends_in_chain_ == 0 || !status_.ok()) return;
  if (options_.signal_chains) {
    sends_[sends_in_chain_ - 1].send_flags |= IBV_SEND_SIGNALED;
  }
  sends_in_chain_ = 0;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_.qp(), sends_.data(), &bad);
  if (error != 0) status_ = ErrnoStatus("post_send", "", error);
}

void VerbsEnd::FlushReceives() {
  if (receives_in_chain_ == 0 || !status_.ok()) return;
  receives_in_chain_ = 0;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_.qp(), receives_.data(), &bad);
  if (error != 0) status_ = ErrnoStatus("post_recv", "", error);
}

int VerbsEnd::Poll(absl::Span<ibv_wc> completions) {
  const int count = cq_.Poll(completions);
  if (count < 0) {
    status_ = absl::InternalError("the completion queue failed");
    return 0;
  }
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[i];
    if (completion.status != IBV_WC_SUCCESS) {
      if (status_.ok()) {
        status_ = absl::UnavailableError(
            transport::WorkCompletionText(completion.status));
      }
      return 0;
    }
    if (completion.opcode != IBV_WC_RECV) completed_ = completion.wr_id;
  }
  return count;
}

void VerbsEnd::Arm() {
  CHECK(options_.events);
  const absl::Status armed = cq_.RequestNotify();
  if (status_.ok()) status_ = armed;
}

bool VerbsEnd::Wait(absl::Span<const int> fds, absl::Time until) {
  CHECK_LE(fds.size(), kWaitFds);
  std::array<pollfd, kWaitFds + 1> polled;
  size_t count = 0;
  polled[count++] = {.fd = channel_.fd(), .events = POLLIN, .revents = 0};
  for (int fd : fds) {
    polled[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
  }
  const auto left_ms = absl::ToInt64Milliseconds(
      std::clamp(until - absl::Now() + absl::Milliseconds(1),
                 absl::ZeroDuration(), absl::Hours(1)));
  if (poll(polled.data(), count, static_cast<int>(left_ms)) <= 0) return false;
  if (polled[0].revents != 0) TakeEvent();
  return std::any_of(polled.begin() + 1, polled.begin() + count,
                     [](const pollfd& other) { return other.revents != 0; });
}

void VerbsEnd::TakeEvent() {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  // One event for each time it was armed, so one read takes them all.
  if (provider_.verbs.get_cq_event(channel_.get(), &cq, &cq_context) == 0) {
    provider_.verbs.ack_cq_events(cq, 1);
  } else if (errno != EAGAIN && errno != EINTR && status_.ok()) {
    status_ = ErrnoStatus("get_cq_event", "", errno);
  }
}

}  // namespace verbena::bench
