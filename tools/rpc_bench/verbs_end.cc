#include "tools/rpc_bench/verbs_end.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

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

VerbsEnd::VerbsEnd(const Provider& provider, CmId id, const VerbsHello& hello,
                   VerbsSide side)
    : provider_(provider),
      hello_(hello),
      side_(side),
      stride_(hello.Stride()),
      id_(std::move(id)) {
  status_ = Open();
}

// Reads the limits of device and port, derives the depths of all queues, and
// refuses a case that does not fit them.
absl::Status VerbsEnd::Plan() {
  ibv_device_attr device = {};
  int error = provider_.verbs.query_device(id_.context(), &device);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  ibv_port_attr port = {};
  error = provider_.verbs.query_port(id_.context(), id_.port_num(), &port);
  if (error != 0) return ErrnoStatus("query_port", "", error);
  request_bytes_max_ = port.max_msg_sz;
  // A READ and a WRITE for each part, and the SEND of the number.
  requests_of_echo_ =
      2 * std::max<uint64_t>(1, (hello_.size_bytes + request_bytes_max_ - 1) /
                                    request_bytes_max_) +
      1;
  reads_max_ = static_cast<uint8_t>(
      std::clamp(std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom), 0,
                 UINT8_MAX - 1));
  const bool client = side_ == VerbsSide::kClient;
  const bool bulk = hello_.plan == VerbsPlan::kBulkEcho;
  if (hello_.plan == VerbsPlan::kSmallEcho ||
      (hello_.plan == VerbsPlan::kSendStream && !client)) {
    receive_bytes_ = static_cast<uint32_t>(stride_);
  }
  // A completed request stays in the queue until a later signalled one has
  // completed, so the queue has room for more than the outstanding ones.
  const uint64_t depth =
      bulk && !client
          ? uint64_t{2} * hello_.outstanding * requests_of_echo_ + 16
          : hello_.SendDepth();
  send_depth_ = static_cast<uint32_t>(depth);

  if (client && stride_ * hello_.Slots(side_) > kMaxVerbsMemoryBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        hello_.outstanding, " outstanding messages of ", hello_.size_bytes,
        " bytes take more than the ", kMaxVerbsMemoryBytes,
        " bytes of memory that the verbs layer allows"));
  }
  if (!bulk && hello_.size_bytes > request_bytes_max_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device takes messages of at most ",
                     request_bytes_max_, " bytes, not ", hello_.size_bytes));
  }
  const uint64_t deepest = std::max<uint64_t>(depth, hello_.ReceiveDepth());
  if (deepest > static_cast<uint64_t>(device.max_qp_wr)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device allows ", device.max_qp_wr,
                     " work requests in a queue, but this case needs ", deepest,
                     ": lower --outstanding"));
  }
  return absl::OkStatus();
}

// Makes domain, queues, memory and queue pair, in the order in which one needs
// the other. The hello gets the address and key of the memory.
absl::Status VerbsEnd::Open() {
  RETURN_IF_ERROR(Plan());
  const transport::VerbsOps& verbs = provider_.verbs;
  ibv_context* const context = id_.context();
  const bool events = hello_.events != 0;
  ASSIGN_OR_RETURN(pd_, ProtectionDomain::Create(verbs, context));
  if (events) {
    ASSIGN_OR_RETURN(channel_, CompletionChannel::Create(verbs, context));
  }
  ASSIGN_OR_RETURN(
      cq_,
      CompletionQueue::Create(
          verbs, context, static_cast<int>(send_depth_ + hello_.ReceiveDepth()),
          events ? &channel_ : nullptr));
  // The side that posts no READs and WRITEs lets the other side access all of
  // its memory.
  const VerbsPlan passive = side_ == VerbsSide::kClient
                                ? VerbsPlan::kBulkEcho
                                : VerbsPlan::kMemoryStream;
  const int access =
      IBV_ACCESS_LOCAL_WRITE |
      (hello_.plan == passive ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                              : 0);
  ASSIGN_OR_RETURN(memory_, RegisteredMemory::Create(
                                pd_, stride_ * hello_.Slots(side_), access));
  // Touches all pages before the measurement, because the first touch is slow.
  std::memset(memory_.data(), 0, memory_.size());
  hello_.address = reinterpret_cast<uintptr_t>(memory_.data());
  hello_.rkey = memory_.rkey();
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = cq_.get();
  attributes.cap.max_send_wr = send_depth_;
  attributes.cap.max_recv_wr = hello_.ReceiveDepth();
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = kInlineBytesWanted;
  attributes.qp_type = IBV_QPT_RC;
  RETURN_IF_ERROR(id_.CreateQp(pd_.get(), &attributes));
  inline_bytes_ = std::min(kInlineBytesWanted, attributes.cap.max_inline_data);
  return absl::OkStatus();
}

transport::ConnectionParameters VerbsEnd::Parameters() const {
  transport::ConnectionParameters parameters;
  parameters.private_data = hello_.bytes();
  parameters.responder_resources = parameters.initiator_depth = reads_max_;
  return parameters;
}

VerbsEnd::~VerbsEnd() {
  // The peer may have gone first.
  id_.Disconnect().IgnoreError();
  // The queue pair goes before the queues and the memory that it uses.
  id_.DestroyQp();
}

// A READ is never inline, because its memory is written.
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

void VerbsEnd::QueueReceive(uint64_t tag, uint64_t slot) {
  if (receives_.full()) FlushReceives();
  receives_.Add(tag, Element(Offset(slot), receive_bytes_));
}

void VerbsEnd::FlushSends() {
  if (!status_.ok()) sends_.count = 0;
  if (sends_.count == 0) return;
  // Only its completion tells that a stream's request has arrived. So the last
  // request of a chain is signalled, because no other one may follow.
  if (side_ == VerbsSide::kClient && hello_.plan >= VerbsPlan::kSendStream) {
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

// Stops at the first error, because nothing more is posted after it.
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
  CHECK(hello_.events != 0);
  status_.Update(cq_.RequestNotify());
}

// Adds a millisecond, because poll() counts in whole ones and would else return
// too early.
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
  if (polled[0].revents != 0) status_.Update(channel_.TakeEvent().status());
  return polled[1].revents != 0 || polled[2].revents != 0;
}

}  // namespace verbena::bench
