// The objects behind an rdma_cm_event and an rdma_event_channel.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_CHANNEL_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_CHANNEL_H_

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/link/cm_message.h"

namespace verbena::soft {

// An event, from the moment it is raised until it is acknowledged.
struct CmEventRecord final : rdma_cm_event {
  explicit CmEventRecord(rdma_cm_event_type type, int event_status = 0)
      : rdma_cm_event{} {
    event = type;
    status = event_status;
  }
  static CmEventRecord* From(rdma_cm_event* event) {
    return static_cast<CmEventRecord*>(event);
  }

  // Tells the user what `message` says of a connection, with `data_bytes` of
  // its private data.
  void SetConnection(const CmMessage& message, uint8_t data_bytes);
  // Tells the user the private data of a message for a service.
  void SetServiceData(std::span<const uint8_t> data);

  // The endpoint whose destroy_id waits for the event to be acknowledged.
  std::shared_ptr<CmEndpoint> owner;
  // With CONNECT_REQUEST, the new identifier.
  std::shared_ptr<CmEndpoint> child;
  // param.conn.private_data or param.ud.private_data points to this memory.
  std::array<uint8_t, kReplyDataBytes> private_data = {};
};

// The object behind an rdma_event_channel: a queue of events. Its descriptor is
// readable while there is an event in the queue.
class CmChannel final : public rdma_event_channel {
 public:
  // For identifiers of `manager`, which outlives it. Null, with errno, when the
  // process is out of descriptors.
  static std::unique_ptr<CmChannel> Create(ConnectionManager* manager);
  static CmChannel* From(rdma_event_channel* channel) {
    return static_cast<CmChannel*>(channel);
  }

  ConnectionManager& manager() { return *manager_; }

  void Push(std::unique_ptr<CmEventRecord> event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents);
  // Null when empty.
  std::unique_ptr<CmEventRecord> Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents);
  // Takes the events of `owner` out, in order.
  std::vector<std::unique_ptr<CmEventRecord>> Remove(const CmEndpoint& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents);

  // The user has destroyed the channel. The object stays for threads that still
  // ask for events. Returns the events that nobody has read.
  std::deque<std::unique_ptr<CmEventRecord>> Close()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents);
  bool closed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents) {
    return !event_fd_.valid();
  }

  // To wait without the lock: AwaitPush() returns when something was pushed, or
  // the channel closed, since there had been as many `pushes`. Returns 0, or
  // EINTR when a signal came that would end a read(2).
  uint32_t pushes() const { return pushes_.load(std::memory_order_relaxed); }
  int AwaitPush(uint32_t pushes) const;

 private:
  CmChannel(ConnectionManager* manager, base::UniqueFd event_fd);
  void WakeAll();
  void SetReadable(bool readable) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEvents);

  ConnectionManager* const manager_;
  // Owns the descriptor that rdma_event_channel::fd names.
  base::UniqueFd event_fd_ ABSL_GUARDED_BY(kEvents);
  std::deque<std::unique_ptr<CmEventRecord>> events_ ABSL_GUARDED_BY(kEvents);
  std::atomic<uint32_t> pushes_{0};  // Changed with the lock.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_CHANNEL_H_
