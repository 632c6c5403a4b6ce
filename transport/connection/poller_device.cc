#include "transport/connection/poller_device.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/connection/send_queue.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

uint32_t CompletionDepth(uint32_t max_connections) {
  return ReceiveSlots::QueueDepth(max_connections) +
         max_connections * SendQueue::kQpDepth;
}

// How many of the connections asked for the device has room for.
absl::StatusOr<uint32_t> ClampConnections(const Provider& provider,
                                          ibv_context* context,
                                          uint32_t wanted) {
  ibv_device_attr attributes = {};
  const int error = provider.verbs.query_device(context, &attributes);
  if (error != 0) return ErrnoStatus("query_device", "", error);
  uint32_t connections = wanted;
  const auto fits = [&attributes](uint32_t n) {
    return ReceiveSlots::QueueDepth(n) <=
               static_cast<uint32_t>(attributes.max_srq_wr) &&
           CompletionDepth(n) <= static_cast<uint32_t>(attributes.max_cqe);
  };
  while (connections > 0 && !fits(connections)) --connections;
  if (connections == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", provider.verbs.get_device_name(context->device),
                     " is too small: it offers ", attributes.max_srq_wr,
                     " shared receives and ", attributes.max_cqe,
                     " completions; one connection needs ",
                     ReceiveSlots::QueueDepth(1), " and ", CompletionDepth(1)));
  }
  return connections;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PollerDevice>> PollerDevice::Create(
    const Provider& provider, ibv_context* context, const Options& options) {
  ASSIGN_OR_RETURN(
      const uint32_t connections,
      ClampConnections(provider, context, options.max_connections));
  ASSIGN_OR_RETURN(ProtectionDomain pd,
                   ProtectionDomain::Create(provider.verbs, context));
  ASSIGN_OR_RETURN(CompletionChannel channel,
                   CompletionChannel::Create(provider.verbs, context));
  ASSIGN_OR_RETURN(
      CompletionQueue cq,
      CompletionQueue::Create(provider.verbs, context,
                              static_cast<int>(CompletionDepth(connections)),
                              &channel));
  std::unique_ptr<PollerDevice> device = absl::WrapUnique(new PollerDevice(
      provider, context, std::move(pd), std::move(channel), std::move(cq)));
  ASSIGN_OR_RETURN(device->slots_,
                   ReceiveSlots::Create(device->pd_, connections));
  ASSIGN_OR_RETURN(device->send_slots_,
                   SendSlots::Create(device->pd_, kMaxSendSlots));
  ASSIGN_OR_RETURN(device->pool_,
                   BufferPool::Create(device->pd_, options.pool));
  return device;
}

PollerDevice::PollerDevice(const Provider& provider, ibv_context* context,
                           ProtectionDomain pd, CompletionChannel channel,
                           CompletionQueue cq)
    : provider_(provider),
      context_(context),
      name_(provider.verbs.get_device_name(context->device)),
      pd_(std::move(pd)),
      channel_(std::move(channel)),
      cq_(std::move(cq)) {}

PollerDevice::~PollerDevice() { CHECK(handlers_.empty()); }

ibv_qp_init_attr PollerDevice::QpAttributes() const {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = cq_.get();
  attributes.recv_cq = cq_.get();
  attributes.srq = slots_.srq();
  attributes.cap.max_send_wr = SendQueue::kQpDepth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = kInlineBytesWanted;
  attributes.qp_type = IBV_QPT_RC;
  return attributes;
}

void PollerDevice::AddHandler(uint32_t qp_num, CompletionHandler* handler) {
  CHECK(handlers_.emplace(qp_num, handler).second);
  tick_order_.push_back(handler);
}

void PollerDevice::RemoveHandler(uint32_t qp_num) {
  const auto found = handlers_.find(qp_num);
  CHECK(found != handlers_.end());
  std::erase(slot_waiters_, found->second);
  std::erase(tick_order_, found->second);
  handlers_.erase(found);
  cached_handlers_[qp_num % kCachedHandlers] = {};
}

void PollerDevice::WaitForSendSlot(CompletionHandler* handler) {
  const auto found =
      std::find(slot_waiters_.begin(), slot_waiters_.end(), handler);
  if (found == slot_waiters_.end()) slot_waiters_.push_back(handler);
}

int PollerDevice::WakeSlotWaiters() {
  if (!send_slots_.available()) return 0;
  // Whoever does not use its turn leaves it to the next, in the next round.
  CompletionHandler* const handler = slot_waiters_.front();
  slot_waiters_.erase(slot_waiters_.begin());
  handler->OnSendSlot();
  return 1;
}

void PollerDevice::OnReadable() {
  // A failing channel shows up as completions that never come, which keepalive
  // bounds.
  channel_.TakeEvent().IgnoreError();
}

void PollerDevice::Tick(absl::Time now) {
  // By index: a handler may remove itself.
  for (size_t i = 0; i < tick_order_.size(); ++i) tick_order_[i]->OnTick(now);
}

void PollerDevice::FailAll() {
  for (const auto& [qp_num, handler] : handlers_) {
    handler->OnReceiveError(IBV_WC_FATAL_ERR);
  }
}

absl::Time PollerDevice::NextTick() const {
  absl::Time next = absl::InfiniteFuture();
  for (const CompletionHandler* handler : tick_order_) {
    next = std::min(next, handler->NextTick());
  }
  return next;
}

}  // namespace verbena::transport
