#include "tools/rpc_bench/verbs_end.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/error.h"
#include "transport/verbs/work_completion.h"

namespace verbena::bench {
namespace {

using transport::CmId;
using transport::CompletionChannel;
using transport::CompletionQueue;
using transport::ErrnoStatus;
using transport::ProtectionDomain;
using transport::Provider;
using transport::RegisteredMemory;

// At least one request in this number is signalled.
constexpr uint64_t kSignalInterval = 16;

// Longest message that is posted inline, if the device takes so much.
constexpr uint32_t kInlineBytesWanted = 220;

}  // namespace

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

template <typename Work>
VerbsEnd::Chain<Work>::Chain() {
  for (size_t i = 0; i < kChain; ++i) {
    works[i].sg_list = &elements[i];
    works[i].next = &works[(i + 1) % kChain];
  }
}

template <typename Work>
Work& VerbsEnd::Chain<Work>::Add(uint64_t tag, const ibv_sge& element) {
  elements[count] = element;
  Work& work = works[count++];
  work.wr_id = tag;
  work.num_sge = element.length > 0 ? 1 : 0;
  return work;
}

template <typename Work>
template <typename Verb>
int VerbsEnd::Chain<Work>::Post(const Verb& verb, ibv_qp* qp) {
  Work& last = works[count - 1];
  Work* const next = std::exchange(last.next, nullptr);
  Work* bad = nullptr;
  const int error = verb(qp, works.data(), &bad);
  last.next = next;
  count = 0;
  return error;
}

absl::StatusOr<std::unique_ptr<VerbsEnd>> VerbsEnd::Create(
    const Provider& provider, CmId id, const Options& options) {
  std::unique_ptr<VerbsEnd> end =
      absl::WrapUnique(new VerbsEnd(provider, std::move(id), options));
  RETURN_IF_ERROR(end->Open());
  return end;
}

VerbsEnd::VerbsEnd(const Provider& provider, CmId id, const Options& options)
    : provider_(provider), options_(options), id_(std::move(id)) {}

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
  attributes.cap.max_inline_data = kInlineBytesWanted;
  attributes.qp_type = IBV_QPT_RC;
  RETURN_IF_ERROR(id_.CreateQp(pd_.get(), &attributes));
  inline_bytes_ = std::min(kInlineBytesWanted, attributes.cap.max_inline_data);
  return absl::OkStatus();
}

VerbsEnd::~VerbsEnd() {
  // The peer may have gone first.
  id_.Disconnect().IgnoreError();
  id_.DestroyQp();
}

ibv_send_wr& VerbsEnd::Queue(ibv_wr_opcode opcode, size_t offset,
                             uint32_t length) {
  if (sends_.full()) FlushSends();
  ibv_send_wr& work = sends_.Add(++queued_, Element(offset, length));
  work.opcode = opcode;
  work.send_flags = 0;
  if (queued_ % kSignalInterval == 0) work.send_flags |= IBV_SEND_SIGNALED;
  if (length <= inline_bytes_ && opcode != IBV_WR_RDMA_READ) {
    work.send_flags |= IBV_SEND_INLINE;
  }
  return work;
}

void VerbsEnd::QueueReceive(uint64_t tag, size_t offset, uint32_t length) {
  if (receives_.full()) FlushReceives();
  receives_.Add(tag, Element(offset, length));
}

void VerbsEnd::FlushSends() {
  if (!status_.ok()) sends_.count = 0;
  if (sends_.count == 0) return;
  if (options_.signal_chains) {
    sends_.works[sends_.count - 1].send_flags |= IBV_SEND_SIGNALED;
  }
  const int error = sends_.Post(ibv_post_send, id_.qp());
  if (error != 0) status_ = ErrnoStatus("post_send", "", error);
}

void VerbsEnd::FlushReceives() {
  if (!status_.ok()) receives_.count = 0;
  if (receives_.count == 0) return;
  const int error = receives_.Post(ibv_post_recv, id_.qp());
  if (error != 0) status_ = ErrnoStatus("post_recv", "", error);
}

absl::Span<const ibv_wc> VerbsEnd::Poll() {
  const int count = cq_.Poll(absl::MakeSpan(completions_));
  if (count < 0) {
    status_ = absl::InternalError("the completion queue failed");
    return {};
  }
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions_[i];
    if (completion.status != IBV_WC_SUCCESS) {
      status_.Update(absl::UnavailableError(
          transport::WorkCompletionText(completion.status)));
      return {};
    }
    if (completion.opcode != IBV_WC_RECV) completed_ = completion.wr_id;
  }
  return {completions_.data(), static_cast<size_t>(count)};
}

void VerbsEnd::Arm() {
  CHECK(options_.events);
  status_.Update(cq_.RequestNotify());
}

bool VerbsEnd::Wait(std::array<int, 2> fds, absl::Time until) {
  pollfd polled[] = {{.fd = channel_.fd(), .events = POLLIN, .revents = 0},
                     {.fd = fds[0], .events = POLLIN, .revents = 0},
                     {.fd = fds[1], .events = POLLIN, .revents = 0}};
  const auto left_ms = absl::ToInt64Milliseconds(
      std::clamp(until - base::Now() + absl::Milliseconds(1),
                 absl::ZeroDuration(), absl::Hours(1)));
  if (poll(polled, std::size(polled), static_cast<int>(left_ms)) <= 0) {
    return false;
  }
  if (polled[0].revents != 0) TakeEvent();
  return polled[1].revents != 0 || polled[2].revents != 0;
}

void VerbsEnd::TakeEvent() {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  // One event for each time it was armed, so one read takes them all.
  if (provider_.verbs.get_cq_event(channel_.get(), &cq, &cq_context) == 0) {
    provider_.verbs.ack_cq_events(cq, 1);
  } else if (errno != EAGAIN && errno != EINTR) {
    status_.Update(ErrnoStatus("get_cq_event", "", errno));
  }
}

}  // namespace verbena::bench
