// Work requests of one queue pair that wait for one doorbell.

#ifndef VERBENA_TRANSPORT_DEVICE_SEND_BATCH_H_
#define VERBENA_TRANSPORT_DEVICE_SEND_BATCH_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"

namespace verbena::transport {

// A chain of work requests, filled in but for what differs from one to the
// next, and scratch memory for frames that the device copies while it is posted
// to. Not thread-safe. Never moves: the chain points into itself.
class SendBatch {
 public:
  // More would let the first frame of a round wait too long for its doorbell.
  static constexpr uint32_t kCapacity = 16;

  SendBatch() {
    for (uint32_t i = 0; i < kCapacity; ++i) {
      requests_[i] = {};
      requests_[i].sg_list = &elements_[i];
      requests_[i].num_sge = 1;
      requests_[i].next = &requests_[i + 1 < kCapacity ? i + 1 : 0];
    }
  }
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }

  // kInlineBytesWanted bytes for the frame that is added next, intact until the
  // batch is posted. REQUIRES: !full().
  uint8_t* scratch() { return scratch_[count_].bytes; }

  // Adds a work request and its only scatter element, of which the caller fills
  // in every field but the links between them. REQUIRES: !full().
  ibv_send_wr* Add() {
    CHECK_LT(count_, kCapacity);
    return &requests_[count_++];
  }

  // The work request that was added last. REQUIRES: !empty().
  ibv_send_wr& last() { return requests_[count_ - 1]; }

  // Those that were added, in their order.
  absl::Span<ibv_send_wr> requests() { return {requests_.data(), count_}; }

  // Drops what was added.
  void Clear() { count_ = 0; }

  // Posts everything with one doorbell, and is empty again. Returns the errno
  // of the device, 0 if all is well. REQUIRES: !empty().
  int Post(ibv_qp* qp) {
    ibv_send_wr& last = requests_[count_ - 1];
    ibv_send_wr* const next = last.next;
    last.next = nullptr;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, requests_.data(), &bad);
    last.next = next;
    count_ = 0;
    return error;
  }

 private:
  struct alignas(64) Scratch {
    uint8_t bytes[kInlineBytesWanted];
  };

  uint32_t count_ = 0;
  std::array<ibv_send_wr, kCapacity> requests_;
  std::array<ibv_sge, kCapacity> elements_;
  std::array<Scratch, kCapacity> scratch_;
};

// The batches of one poller's queue pairs: as many as ever had something to
// post in the same round, which is few. Not thread-safe.
class SendBatches {
 public:
  SendBatches() = default;
  SendBatches(const SendBatches&) = delete;
  SendBatches& operator=(const SendBatches&) = delete;
  ~SendBatches() { CHECK_EQ(spare_.size(), all_.size()); }

  // An empty one. Allocates only when there have never been so many.
  SendBatch* Acquire() {
    if (spare_.empty()) {
      all_.push_back(std::make_unique<SendBatch>());
      spare_.reserve(all_.size());
      return all_.back().get();
    }
    SendBatch* const batch = spare_.back();
    spare_.pop_back();
    return batch;
  }

  // REQUIRES: empty().
  void Release(SendBatch* batch) { spare_.push_back(batch); }

 private:
  std::vector<std::unique_ptr<SendBatch>> all_;
  std::vector<SendBatch*> spare_;  // The one used last is taken first.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_SEND_BATCH_H_
