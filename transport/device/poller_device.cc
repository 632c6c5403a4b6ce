#include "transport/device/poller_device.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// Returns a plan that fits the device; an error if not one connection fits.
absl::StatusOr<QueuePlan> MakePlan(absl::string_view device,
                                   const DeviceLimits& limits,
                                   uint32_t max_connections,
                                   ReceiveQueues receive_queues) {
  const QueuePlan plan = PlanQueues(max_connections, limits.receives,
                                    limits.completions, receive_queues);
  if (plan.connections == 0 || limits.send_depth < kLeastSendDepth) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device ", device, " is too small: it offers ", limits.receives,
        limits.shared_receives ? " shared receives, " : " receives, ",
        limits.completions, " completions and ", limits.send_depth,
        " work requests, too few for one connection"));
  }
  return plan;
}

ReceiveQueues QueuesOf(const DeviceLimits& limits, bool shared_memory) {
  if (!shared_memory) return ReceiveQueues::kOneEach;
  return limits.shared_receives ? ReceiveQueues::kOneForAll
                                : ReceiveQueues::kOneEachOfSharedMemory;
}

// Bytes inline to ask for when a device has refused `refused` of them. Devices
// do not report what they take: bnxt_re takes 96, siw 80, others none.
uint32_t FewerInlineBytes(uint32_t refused) {
  for (const uint32_t bytes : {96u, 64u, 32u}) {
    if (bytes < refused) return bytes;
  }
  return 0;
}

// Whether a device may say so because it was asked for too much. Some versions
// of librdmacm answer ENOMEM whatever the device has answered.
bool MayBeTooMuch(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

// Plans the queues by what the device offers before anything is made, so that a
// device that is too small is refused with the numbers.
absl::StatusOr<std::unique_ptr<PollerDevice>> PollerDevice::Create(
    const Provider& provider, ibv_context* context, const Options& options) {
  ASSIGN_OR_RETURN(const DeviceLimits limits, QueryLimits(provider, context));
  ASSIGN_OR_RETURN(const QueuePlan plan,
                   MakePlan(provider.verbs.get_device_name(context->device),
                            limits, options.max_connections,
                            QueuesOf(limits, options.shared_pool.has_value())));
  ASSIGN_OR_RETURN(CompletionChannel channel,
                   CompletionChannel::Create(provider.verbs, context));
  ASSIGN_OR_RETURN(CompletionQueue cq,
                   CompletionQueue::Create(
                       provider.verbs, context,
                       static_cast<int>(plan.CompletionDepth()), &channel));
  std::unique_ptr<PollerDevice> device = absl::WrapUnique(new PollerDevice(
      provider, context, limits, plan, std::move(channel), std::move(cq)));
  if (options.shared_pool.has_value()) {
    ASSIGN_OR_RETURN(
        device->shared_memory_,
        MemoryDomain::Create(provider.verbs, context,
                             limits.shared_receives ? plan.Receives() : 0,
                             kMaxSendBuffers, plan.connections,
                             *options.shared_pool));
    if (limits.shared_receives) {
      device->shared_receives_ = &device->shared_memory_->receives();
    }
  }
  return device;
}

PollerDevice::PollerDevice(const Provider& provider, ibv_context* context,
                           const DeviceLimits& limits, const QueuePlan& plan,
                           CompletionChannel channel, CompletionQueue cq)
    : provider_(provider),
      context_(context),
      name_(provider.verbs.get_device_name(context->device)),
      limits_(limits),
      plan_(plan),
      channel_(std::move(channel)),
      cq_(std::move(cq)),
      sending_{.batches = {}, .shared = SharedSends(plan.shared_sends)} {}

PollerDevice::~PollerDevice() { CHECK(connections_.by_number().empty()); }

absl::StatusOr<std::unique_ptr<MemoryDomain>> PollerDevice::MakeMemory(
    const BufferPool::Options& pool) const {
  // A frame may be begun while all that can be posted are. The one connection
  // shares with nobody: twice that much, never used, leaves it all of it.
  return MemoryDomain::Create(
      provider_.verbs, context_, limits_.shared_receives ? plan_.Receives() : 0,
      2 * (kFrameDepth + 1), /*reserved_sends=*/0, pool);
}

ibv_qp_init_attr PollerDevice::QpAttributes(MemoryDomain& memory) const {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = cq_.get();
  attributes.recv_cq = cq_.get();
  attributes.srq = memory.receives().srq();  // Null if each has its own.
  if (attributes.srq == nullptr) {
    attributes.cap.max_recv_wr = plan_.ReceiveDepth();
    attributes.cap.max_recv_sge = 1;
  }
  attributes.cap.max_send_wr = limits_.send_depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = inline_wanted_;
  attributes.qp_type = IBV_QPT_RC;
  return attributes;
}

// Asks for fewer bytes inline until the device agrees. Only a device that has
// said that it was too much is not asked for more again: one that was short of
// memory may have some for the next connection.
absl::StatusOr<PollerDevice::QueuePair> PollerDevice::MakeQueuePair(
    CmId& id, MemoryDomain& memory) {
  ibv_qp_init_attr attributes = QpAttributes(memory);
  uint32_t wanted = attributes.cap.max_inline_data;
  absl::Status status = id.CreateQp(memory.pd().get(), &attributes);
  const bool too_much = absl::IsInvalidArgument(status);
  while (!status.ok() && MayBeTooMuch(status) && wanted > 0) {
    wanted = FewerInlineBytes(wanted);
    attributes = QpAttributes(memory);
    attributes.cap.max_inline_data = wanted;
    status = id.CreateQp(memory.pd().get(), &attributes);
  }
  if (!status.ok()) return status;
  if (too_much) inline_wanted_ = wanted;
  QueuePair made = {attributes.cap.max_inline_data, nullptr};
  if (limits_.shared_receives) return made;
  // The receives are posted before the private data grant the peer its first
  // credits.
  made.receives = std::make_unique<ReceiveBuffers>(memory.receive_slabs(),
                                                   id.qp(), plan_.Receives());
  status = made.receives->Reserve(kIdleReceives);
  if (status.ok()) return made;
  id.DestroyQp();
  made.receives->Leave();
  return status;
}

absl::Status PollerDevice::Reserve(MemoryDomain& memory) {
  if (broken_) {
    return absl::UnavailableError("the device's completion queue has failed");
  }
  if (!has_room()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", plan_.connections,
        " connections that one poller takes on one device are in use; more "
        "pollers take more (ServerBuilder::SetPollers)"));
  }
  if (limits_.shared_receives) {
    RETURN_IF_ERROR(ReserveReceives(memory.receives(), kIdleReceives));
  }
  ++reserved_connections_;
  return absl::OkStatus();
}

absl::Status PollerDevice::ReserveReceives(ReceiveBuffers& receives,
                                           uint32_t count) {
  absl::Status status = receives.Reserve(count);
  // Better no connection than one whose messages find no receive.
  if (!receives.complete()) FailAll(receives);
  return status;
}

void PollerDevice::Release(MemoryDomain& memory) {
  --reserved_connections_;
  if (!limits_.shared_receives) return;
  ReceiveBuffers& receives = memory.receives();
  // A device that takes no receives any more leaves others with too few.
  if (!receives.Unreserve(kIdleReceives).ok()) FailAll(receives);
}

// Gives no more than the plan has left. Where connections share only the
// memory, halves the number until its buffers fit.
uint32_t PollerDevice::GrowReceives(ReceiveBuffers& receives, uint32_t wanted) {
  uint32_t count = wanted;
  if (plan_.receive_queues == ReceiveQueues::kOneEachOfSharedMemory) {
    while (count > 0 && receives.BuffersFor(count) > SpareBuffers()) count /= 2;
  } else {
    count = std::min(wanted, plan_.grown_receives - grown_receives_);
  }
  if (count == 0) return 0;
  // Without memory that can be registered the connection stays as it is.
  if (!ReserveReceives(receives, count).ok()) return 0;
  grown_receives_ += count;
  return count;
}

// Returns how many receive buffers busy connections may still take beyond those
// of idle ones.
uint32_t PollerDevice::SpareBuffers() const {
  constexpr uint32_t kIdleDepth = ReceiveBuffers::QueueDepth(kIdleReceives);
  const size_t most =
      size_t{reserved_connections_} * kIdleDepth + plan_.grown_receives;
  const size_t taken = shared_memory_->receive_slabs().taken_count();
  return taken < most ? static_cast<uint32_t>(most - taken) : 0;
}

void PollerDevice::ShrinkReceives(ReceiveBuffers& receives, uint32_t count) {
  grown_receives_ -= count;
  if (!receives.Unreserve(count).ok()) FailAll(receives);
}

void PollerDevice::PollToEmpty(absl::FunctionRef<bool()> wanted) {
  // Bounded, because other connections of the device may have completions
  // without end.
  uint32_t left = plan_.CompletionDepth() / ReceiveBuffers::kPollBatch + 1;
  while (wanted() && left > 0 && Poll() > 0) --left;
}

// Takes the connection out of every list, because the next queue pair may have
// the same number.
void PollerDevice::RemoveConnection(uint32_t qp_num) {
  DeviceConnection* const connection = connections_.Remove(qp_num);
  std::erase(buffer_waiters_, connection);
  std::erase(round_, connection);
}

void PollerDevice::WaitForSendBuffer(DeviceConnection* connection) {
  const auto found =
      std::find(buffer_waiters_.begin(), buffer_waiters_.end(), connection);
  if (found == buffer_waiters_.end()) buffer_waiters_.push_back(connection);
}

// Wakes the first whose memory has a buffer. Only one at a time, because there
// may be no second buffer.
int PollerDevice::WakeBufferWaiters() {
  const auto found =
      std::find_if(buffer_waiters_.begin(), buffer_waiters_.end(),
                   [](const DeviceConnection* connection) {
                     return connection->memory().send_buffers().available();
                   });
  if (found == buffer_waiters_.end()) return 0;
  // If the connection does not use its turn, the next one has it next round.
  DeviceConnection* const connection = *found;
  buffer_waiters_.erase(found);
  connection->OnSendBuffer();
  return 1;
}

void PollerDevice::OnReadable() {
  // A failing channel shows up as completions that never come, which keepalive
  // bounds.
  if (!channel_.TakeEvent().value_or(false)) return;
  // The completions of an event that was left were handled already.
  event_ = event_ == Event::kLeft ? Event::kNone : Event::kTaken;
}

void PollerDevice::Tick(absl::Time now) {
  if (shared_memory_ != nullptr) {
    // If the pool was short of memory, tick all connections: their calls may
    // hold memory that another connection waits for.
    const uint64_t shortages = shared_memory_->pool().shortages();
    if (shortages != std::exchange(seen_shortages_, shortages)) {
      for (const auto& [qp_num, connection] : connections_.by_number()) {
        connections_.Touch(connection);
      }
    }
  }
  connections_.Tick(now);
}

absl::Status PollerDevice::Arm() {
  // Arming a broken device fails each time, and the poller would never sleep.
  if (broken_) return absl::OkStatus();
  // Takes the event that an earlier arming may have left in the channel.
  // Otherwise it would end the next sleep at once, and the arming of that sleep
  // would leave an event in turn. That would go on as long as completions come
  // soon.
  while (event_ == Event::kLeft && channel_.TakeEvent().value_or(false)) {
  }
  event_ = Event::kAsked;
  absl::Status status = cq_.RequestNotify();
  if (!status.ok()) Break();
  return status;
}

void PollerDevice::Break() {
  // No connection hears twice that it is lost.
  if (std::exchange(broken_, true)) return;
  for (const auto& [qp_num, connection] : connections_.by_number()) {
    connection->OnReceiveError(IBV_WC_FATAL_ERR);
  }
}

void PollerDevice::FailAll(const ReceiveBuffers& receives) {
  for (const auto& [qp_num, connection] : connections_.by_number()) {
    if (&connection->receives() != &receives) continue;
    connection->OnReceiveError(IBV_WC_FATAL_ERR);
  }
}

}  // namespace verbena::transport
