#include "transport/connection/poller_device.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/connection/connection.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// What the device has room for.
absl::StatusOr<QueuePlan> MakePlan(const Provider& provider,
                                   ibv_context* context,
                                   uint32_t max_connections) {
  ibv_device_attr attributes = {};
  const int error = provider.verbs.query_device(context, &attributes);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  const QueuePlan plan =
      PlanQueues(max_connections, static_cast<uint32_t>(attributes.max_srq_wr),
                 static_cast<uint32_t>(attributes.max_cqe));
  if (plan.connections == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", provider.verbs.get_device_name(context->device),
                     " is too small: it offers ", attributes.max_srq_wr,
                     " shared receives and ", attributes.max_cqe,
                     " completions, too few for one connection"));
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PollerDevice>> PollerDevice::Create(
    const Provider& provider, ibv_context* context, const Options& options) {
  ASSIGN_OR_RETURN(const QueuePlan plan,
                   MakePlan(provider, context, options.max_connections));
  ASSIGN_OR_RETURN(ProtectionDomain pd,
                   ProtectionDomain::Create(provider.verbs, context));
  ASSIGN_OR_RETURN(CompletionChannel channel,
                   CompletionChannel::Create(provider.verbs, context));
  ASSIGN_OR_RETURN(CompletionQueue cq,
                   CompletionQueue::Create(
                       provider.verbs, context,
                       static_cast<int>(plan.CompletionDepth()), &channel));
  std::unique_ptr<PollerDevice> device =
      absl::WrapUnique(new PollerDevice(provider, context, plan, std::move(pd),
                                        std::move(channel), std::move(cq)));
  ASSIGN_OR_RETURN(device->receives_,
                   ReceiveBuffers::Create(device->pd_, plan.Receives()));
  ASSIGN_OR_RETURN(device->send_buffers_,
                   SendBuffers::Create(device->pd_, kMaxSendBuffers));
  ASSIGN_OR_RETURN(device->pool_,
                   BufferPool::Create(device->pd_, options.pool));
  return device;
}

PollerDevice::PollerDevice(const Provider& provider, ibv_context* context,
                           const QueuePlan& plan, ProtectionDomain pd,
                           CompletionChannel channel, CompletionQueue cq)
    : provider_(provider),
      context_(context),
      name_(provider.verbs.get_device_name(context->device)),
      plan_(plan),
      pd_(std::move(pd)),
      channel_(std::move(channel)),
      cq_(std::move(cq)),
      shared_sends_(plan.shared_sends) {}

PollerDevice::~PollerDevice() { CHECK(connections_.empty()); }

ibv_qp_init_attr PollerDevice::QpAttributes() const {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = cq_.get();
  attributes.recv_cq = cq_.get();
  attributes.srq = receives_.srq();
  attributes.cap.max_send_wr = kSendQueueDepth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = kInlineBytesWanted;
  attributes.qp_type = IBV_QPT_RC;
  return attributes;
}

absl::Status PollerDevice::Reserve() {
  if (reserved_connections_ == plan_.connections) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", plan_.connections, " connections of this poller are in use"));
  }
  RETURN_IF_ERROR(ReserveReceives(kIdleReceives));
  ++reserved_connections_;
  return absl::OkStatus();
}

absl::Status PollerDevice::ReserveReceives(uint32_t count) {
  absl::Status status = receives_.Reserve(count);
  // Better no connection than one whose messages find no receive.
  if (!receives_.complete()) FailAll();
  return status;
}

void PollerDevice::Release() {
  --reserved_connections_;
  if (!receives_.Unreserve(kIdleReceives).ok()) FailAll();
}

uint32_t PollerDevice::GrowReceives(uint32_t wanted) {
  const uint32_t count =
      std::min(wanted, plan_.grown_receives - grown_receives_);
  if (count == 0) return 0;
  // Without memory that can be registered the connection stays as it is.
  if (!ReserveReceives(count).ok()) return 0;
  grown_receives_ += count;
  return count;
}

void PollerDevice::ShrinkReceives(uint32_t count) {
  grown_receives_ -= count;
  if (!receives_.Unreserve(count).ok()) FailAll();
}

void PollerDevice::AddConnection(uint32_t qp_num, Connection* connection) {
  CHECK(connections_.emplace(qp_num, connection).second);
  tick_order_.push_back(connection);
}

void PollerDevice::RemoveConnection(uint32_t qp_num) {
  const auto found = connections_.find(qp_num);
  CHECK(found != connections_.end());
  std::erase(buffer_waiters_, found->second);
  std::erase(tick_order_, found->second);
  std::erase(round_, found->second);
  connections_.erase(found);
  cached_connections_[qp_num % kCachedConnections] = {};
}

void PollerDevice::WaitForSendBuffer(Connection* connection) {
  const auto found =
      std::find(buffer_waiters_.begin(), buffer_waiters_.end(), connection);
  if (found == buffer_waiters_.end()) buffer_waiters_.push_back(connection);
}

int PollerDevice::WakeBufferWaiters() {
  if (!send_buffers_.available()) return 0;
  // Whoever does not use its turn leaves it to the next, in the next round.
  Connection* const connection = buffer_waiters_.front();
  buffer_waiters_.erase(buffer_waiters_.begin());
  connection->OnSendBuffer();
  return 1;
}

void PollerDevice::OnReadable() {
  // A failing channel shows up as completions that never come, which keepalive
  // bounds.
  channel_.TakeEvent().IgnoreError();
}

void PollerDevice::Tick(absl::Time now) {
  // By index: a connection may remove itself.
  for (size_t i = 0; i < tick_order_.size(); ++i) tick_order_[i]->OnTick(now);
}

void PollerDevice::FailAll() {
  for (const auto& [qp_num, connection] : connections_) {
    connection->OnReceiveError(IBV_WC_FATAL_ERR);
  }
}

absl::Time PollerDevice::NextTick() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Connection* connection : tick_order_) {
    next = std::min(next, connection->NextTick());
  }
  return next;
}

}  // namespace verbena::transport
