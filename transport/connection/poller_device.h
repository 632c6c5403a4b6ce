// One RDMA device as one poller uses it.

#ifndef VERBENA_TRANSPORT_CONNECTION_POLLER_DEVICE_H_
#define VERBENA_TRANSPORT_CONNECTION_POLLER_DEVICE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/connection/poller.h"
#include "transport/connection/queue_plan.h"
#include "transport/connection/receive_slots.h"
#include "transport/connection/send_batch.h"
#include "transport/connection/send_queue.h"
#include "transport/connection/send_slots.h"
#include "transport/memory/buffer_pool.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/protection_domain.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// What a PollerDevice drives: in practice a Connection. Called with the role.
class CompletionHandler {
 public:
  virtual ~CompletionHandler() = default;

  // A message arrived. `frame` is the transport's again on return.
  virtual void OnReceive(absl::Span<const uint8_t> frame) = 0;

  // The work request `wr_id` ended with `status`.
  virtual void OnSendDone(uint64_t wr_id, ibv_wc_status status) = 0;

  // A receive ended with an error: the queue pair is lost.
  virtual void OnReceiveError(ibv_wc_status status) = 0;

  // A send slot that it waited for may be free: see WaitForSendSlot().
  virtual void OnSendSlot() = 0;

  virtual void OnTick(absl::Time now) = 0;

  // When OnTick() must be called although nothing happens.
  virtual absl::Time NextTick() const = 0;
};

// The protection domain, the completion queue, the shared receive queue and the
// bulk memory through which one poller uses one device, and the connections on
// it by queue pair number.
//
// The Provider, the context and the Poller must outlive it; its handlers and
// Buffers must be gone before it. Confined to the poller's role, but for
// pool(), which is thread-safe.
class PollerDevice final : public Pollable {
 public:
  struct Options {
    uint32_t max_connections = 1;
    BufferPool::Options pool;
  };

  static absl::StatusOr<std::unique_ptr<PollerDevice>> Create(
      const Provider& provider, ibv_context* context, const Options& options);
  PollerDevice(const PollerDevice&) = delete;
  PollerDevice& operator=(const PollerDevice&) = delete;
  ~PollerDevice() override;

  const Provider& provider() const { return provider_; }
  ibv_context* context() const { return context_; }
  const std::string& name() const { return name_; }
  const ProtectionDomain& pd() const { return pd_; }
  BufferPool& pool() { return *pool_; }

  // What a connection's queue pair is to be made with.
  ibv_qp_init_attr QpAttributes() const;

  // Reserves the receives of one connection without traffic; to be paired with
  // Release(). RESOURCE_EXHAUSTED if there are as many as may be; the error of
  // the registration.
  absl::Status Reserve();
  void Release();

  // Reserves up to `wanted` more, for a connection with traffic; returns how
  // many. To be given back with ShrinkReceives().
  uint32_t GrowReceives(uint32_t wanted);
  void ShrinkReceives(uint32_t count);

  // What is registered for frames: it grows with the traffic, and with the
  // number of connections.
  size_t frame_bytes() const {
    return slots_.registered_bytes() + send_slots_.registered_bytes();
  }

  // What the connections on the device send from.
  SendSlots& send_slots() { return send_slots_; }
  SendBatches& send_batches() { return send_batches_; }
  SharedSends& shared_sends() { return shared_sends_; }

  // `handler`, which found no send slot, hears when there may be one; once, and
  // after all that waited before it.
  void WaitForSendSlot(CompletionHandler* handler);

  // `handler` gets what concerns queue pair `qp_num`. Handlers come and go
  // while completions are handled, but a handler is destroyed only from Tick()
  // or from outside the poller.
  void AddHandler(uint32_t qp_num, CompletionHandler* handler);
  void RemoveHandler(uint32_t qp_num);

  int Poll() override;
  void Tick(absl::Time now) override;
  void OnReadable() override;
  absl::Status Arm() override { return cq_.RequestNotify(); }
  int fd() const override { return channel_.fd(); }
  absl::Time NextTick() const override;

 private:
  // Of slots_, with what its failing means for the connections there are.
  absl::Status ReserveReceives(uint32_t count);
  PollerDevice(const Provider& provider, ibv_context* context,
               const QueuePlan& plan, ProtectionDomain pd,
               CompletionChannel channel, CompletionQueue cq);
  void Handle(const ibv_wc& completion);
  CompletionHandler* FindHandler(uint32_t qp_num);
  int WakeSlotWaiters();
  // The device takes no receives any more: no connection on it can go on.
  void FailAll();

  const Provider& provider_;
  ibv_context* const context_;
  const std::string name_;
  const QueuePlan plan_;
  ProtectionDomain pd_;
  CompletionChannel channel_;
  CompletionQueue cq_;
  ReceiveSlots slots_;
  uint32_t reserved_connections_ = 0;
  uint32_t grown_receives_ = 0;
  SendSlots send_slots_;
  SendBatches send_batches_;
  SharedSends shared_sends_;
  std::unique_ptr<BufferPool> pool_;
  absl::flat_hash_map<uint32_t, CompletionHandler*> handlers_;
  std::vector<CompletionHandler*> tick_order_;  // All of them.
  // Those of handlers_ that were used lately, by the low bits of the number.
  struct Cached {
    uint32_t qp_num = 0;
    CompletionHandler* handler = nullptr;
  };
  static constexpr uint32_t kCachedHandlers = 64;
  std::array<Cached, kCachedHandlers> cached_handlers_;

  std::vector<CompletionHandler*> slot_waiters_;  // The first one came first.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_POLLER_DEVICE_H_
