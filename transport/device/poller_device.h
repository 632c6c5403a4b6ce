// An RDMA device as one poller uses it.

#ifndef VERBENA_TRANSPORT_DEVICE_POLLER_DEVICE_H_
#define VERBENA_TRANSPORT_DEVICE_POLLER_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/device/device_connection.h"
#include "transport/device/device_connections.h"
#include "transport/device/device_limits.h"
#include "transport/device/memory_domain.h"
#include "transport/device/queue_plan.h"
#include "transport/device/send_batch.h"
#include "transport/device/shared_sends.h"
#include "transport/memory/buffer_pool.h"
#include "transport/polling/poller.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// The completion queue through which one poller uses one device, the
// connections on it by queue pair number, and the memory that they share, if
// they do.
//
// The Provider, the context and the Poller must outlive it; its connections
// must be gone before it. Confined to the poller's thread.
class PollerDevice final : public Pollable {
 public:
  struct Options {
    uint32_t max_connections = 1;
    // Options of the pool in the memory that all connections share. If not set,
    // each connection brings a domain of its own: see MakeMemory().
    std::optional<BufferPool::Options> shared_pool;
  };

  static absl::StatusOr<std::unique_ptr<PollerDevice>> Create(
      const Provider& provider, ibv_context* context, const Options& options);
  PollerDevice(const PollerDevice&) = delete;
  PollerDevice& operator=(const PollerDevice&) = delete;
  ~PollerDevice() override;

  const Provider& provider() const { return provider_; }
  ibv_context* context() const { return context_; }
  const std::string& name() const { return name_; }

  // The memory of all connections. REQUIRES: they share it.
  MemoryDomain& shared_memory() { return *shared_memory_; }
  // Memory for one connection alone. REQUIRES: they do not share it.
  absl::StatusOr<std::unique_ptr<MemoryDomain>> MakeMemory(
      const BufferPool::Options& pool) const;

  // Returns the attributes of the queue pair of a connection with this memory.
  ibv_qp_init_attr QpAttributes(MemoryDomain& memory) const;
  struct QueuePair {
    uint32_t inline_bytes = 0;                 // The most that it takes.
    std::unique_ptr<ReceiveBuffers> receives;  // Null if they are shared.
  };
  // Gives `id` such a queue pair, or one with fewer bytes inline where the
  // device refuses that many. If the device shares no receives, the queue pair
  // gets its own.
  absl::StatusOr<QueuePair> MakeQueuePair(CmId& id, MemoryDomain& memory);
  const DeviceLimits& limits() const { return limits_; }

  // Its completion queue has failed: it has ended its connections, and takes no
  // more.
  bool broken() const { return broken_; }
  // The device was removed from the machine: no more connections. Each of them
  // hears so by itself.
  void Retire() { retired_ = true; }
  bool retired() const { return retired_; }
  // Whether the owner is to destroy this.
  bool finished() const {
    return (retired_ || broken_) && reserved_connections_ == 0;
  }
  // How many connections there is room for.
  uint32_t max_connections() const { return plan_.connections; }
  // Whether there is room for one more connection.
  bool has_room() const {
    return !broken_ && !retired_ && reserved_connections_ < plan_.connections;
  }
  // Reserves the receives of one connection without traffic; to be paired with
  // Release(). RESOURCE_EXHAUSTED if there are as many as may be; the error of
  // the registration.
  absl::Status Reserve(MemoryDomain& memory);
  void Release(MemoryDomain& memory);

  // Reserves up to `wanted` more, for a connection with traffic; returns how
  // many. To be given back with ShrinkReceives().
  uint32_t GrowReceives(ReceiveBuffers& receives, uint32_t wanted);
  void ShrinkReceives(ReceiveBuffers& receives, uint32_t count);

  // Objects that the connections on the device share for sending.
  struct Sending {
    SendBatches batches;
    SharedSends shared;
  };
  Sending& sending() { return sending_; }

  // `connection`, which found no send buffer, hears when there may be one;
  // once, and after all that waited before it.
  void WaitForSendBuffer(DeviceConnection* connection);

  // Connections come and go while completions are handled, but one is destroyed
  // only from Tick() or from outside the poller. A connection is added here,
  // and removed by RemoveConnection().
  DeviceConnections& connections() { return connections_; }
  void RemoveConnection(uint32_t qp_num);

  // Has connection->FinishRound() called when this round of the poller ends,
  // once, however much of the round asks for it. REQUIRES: a round is going on,
  // or the next one is certain to come.
  void JoinRound(DeviceConnection* connection) {
    if (connection->in_round_) return;
    connection->in_round_ = true;
    round_.push_back(connection);
  }

  // Whether a connection has closed since somebody looked.
  bool any_closed() const { return any_closed_; }
  void set_any_closed(bool any) { any_closed_ = any; }

  // Handles what is complete now, of any connection, as long as `wanted`.
  void PollToEmpty(absl::FunctionRef<bool()> wanted);

  int Poll() override;
  bool FinishRound() override;
  void Tick(absl::Time now) override;
  void OnReadable() override;
  absl::Status Arm() override;
  int fd() const override { return channel_.fd(); }
  absl::Time NextTick() const override { return connections_.NextTick(); }

 private:
  void Break();
  uint32_t SpareBuffers() const;
  // receives.Reserve(); if the device fails, fails every connection with them
  // too.
  absl::Status ReserveReceives(ReceiveBuffers& receives, uint32_t count);
  PollerDevice(const Provider& provider, ibv_context* context,
               const DeviceLimits& limits, const QueuePlan& plan,
               CompletionChannel channel, CompletionQueue cq);
  // Apart from Poll(): the registers that it needs would make every idle poll
  // dearer.
  ABSL_ATTRIBUTE_NOINLINE void HandleAll(absl::Span<const ibv_wc> completions);
  void Handle(const ibv_wc& completion);
  int WakeBufferWaiters();
  // The device takes none of `receives` any more: no connection with them
  // can go on.
  void FailAll(const ReceiveBuffers& receives);

  // State of the event that Arm() asked for.
  enum class Event : uint8_t {
    kNone,   // Taken, and the completions it announced were handled.
    kAsked,  // The event may come.
    kTaken,  // An event was taken: this one, or one of an earlier Arm().
    kLeft,   // May be in the channel; its completions were handled.
  };

  const Provider& provider_;
  ibv_context* const context_;
  const std::string name_;
  const DeviceLimits limits_;
  const QueuePlan plan_;
  CompletionChannel channel_;
  CompletionQueue cq_;
  std::unique_ptr<MemoryDomain> shared_memory_;  // Null if there is none.
  // Receives that all connections share; null if each has its own.
  ReceiveBuffers* shared_receives_ = nullptr;
  bool broken_ = false;                          // See Break().
  bool retired_ = false;                         // See Retire().
  uint32_t inline_wanted_ = kInlineBytesWanted;  // Less if that was refused.
  Event event_ = Event::kNone;
  uint32_t reserved_connections_ = 0;  // Reserve() without Release().
  uint32_t grown_receives_ = 0;        // What GrowReceives() has given.
  Sending sending_;
  DeviceConnections connections_;
  bool any_closed_ = false;
  uint64_t seen_shortages_ = 0;  // The shared pool's.
  // Connections that called JoinRound() since the last FinishRound().
  std::vector<DeviceConnection*> round_;
  std::vector<DeviceConnection*> buffer_waiters_;  // The first one came first.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_POLLER_DEVICE_H_
