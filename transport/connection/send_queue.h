// What one connection has posted and not seen completed.

#ifndef VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_
#define VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/connection/send_batch.h"
#include "transport/connection/send_slots.h"

namespace verbena::transport {

// Where a READ or WRITE goes.
struct BulkChunk {
  uint8_t* local = nullptr;
  uint32_t lkey = 0;
  uint32_t bytes = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
};

// The work requests that the connections of a device may have under way beyond
// kOwnSends each. Not thread-safe.
class SharedSends {
 public:
  explicit SharedSends(uint32_t count) : left_(count) {}

  bool available(uint32_t count = 1) const { return left_ >= count; }
  // REQUIRES: available().
  void Take() { --left_; }
  void Release() { ++left_; }

 private:
  uint32_t left_;
};

// The send queue of one queue pair: frames, READs and WRITEs, and the
// bookkeeping that tells from a completion what has been finished. A reliable
// connection completes in order, so one completion finishes everything posted
// before it; only some frames are signalled for that reason.
//
// What is posted goes to the device in the order posted, but only with the next
// Flush(): one doorbell for many.
//
// Places are counted by completions, never by guesses: nothing is posted that
// the queue pair has no room for. Not thread-safe: confined to the poller's
// role.
class SendQueue {
 public:
  // All are the device's, shared with its other queues; they outlive it.
  SendQueue(SendSlots& slots, SendBatches& batches, SharedSends& shared)
      : slots_(slots), batches_(batches), shared_(shared) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  // REQUIRES: the queue pair is gone.
  ~SendQueue();

  // The queue pair, made with kSendQueueDepth and at most `inline_bytes`
  // inline.
  void Attach(ibv_qp* qp, uint32_t inline_bytes);

  // Whether there is room for a frame, in the queue pair and in the completion
  // queue. If not, there will be after the next completion.
  bool HasFramePlace() const {
    return frames_posted_ - frames_done_ < kFrameDepth && HasPlace();
  }

  // Whether so many frames can be posted now, each of which takes a slot.
  bool HasPlacesFor(uint32_t frames) {
    const bool own = posted_ - done_ + frames <= kOwnSends;
    return frames_posted_ - frames_done_ + frames <= kFrameDepth &&
           (own || shared_.available(frames)) && slots_.Prepare(frames);
  }

  // Memory for the next frame, of at most `bytes` (themselves at most
  // kSlotBytes), until it is posted. Null if it takes a slot and all are held.
  // REQUIRES: HasFramePlace().
  uint8_t* BeginFrame(uint32_t bytes) {
    if (batch_ == nullptr) batch_ = batches_.Acquire();
    if (bytes <= inline_bytes_) {
      frame_ = batch_->scratch();
      frame_slot_ = SendSlots::kNone;
    } else {
      if (spare_slot_ == SendSlots::kNone) spare_slot_ = slots_.Acquire();
      if (spare_slot_ == SendSlots::kNone) return nullptr;
      frame_slot_ = spare_slot_;
      frame_ = slots_.Slot(frame_slot_);
    }
    return frame_;
  }

  // What BeginFrame() returned last.
  uint8_t* frame() const { return frame_; }

  // Sends the first `bytes` of frame(). `signalled`: its completion is wanted
  // soon. Fails only when the device refuses, and then the connection is lost.
  // REQUIRES: BeginFrame() returned non-null since the last frame was posted.
  absl::Status PostFrame(uint32_t bytes, bool signalled);

  // The same for a READ or WRITE.
  bool HasBulkSlot() const {
    return bulk_posted_ - bulk_done_ < kBulkDepth && HasPlace();
  }

  // Posts a READ or a WRITE; `tag` comes back when it is done. REQUIRES:
  // HasBulkSlot(); the memory stays until then.
  absl::Status PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk,
                        void* tag);

  // Hands what was posted to the device. Fails as PostFrame() does.
  absl::Status Flush();

  // After the queue pair was put into the error state: posts something whose
  // flush ends everything before it, the silent successes included. Fails when
  // the device refuses it: then nothing may ever come of what was posted.
  absl::Status PostDrainMarker();

  // Handles the completion of `wr_id`, whatever its status, and calls
  // `bulk_done` with the tag of every READ and WRITE that it finishes.
  void Complete(uint64_t wr_id, absl::FunctionRef<void(void*)> bulk_done);

  // Nothing is posted any more.
  bool idle() const { return posted_ == done_; }

 private:
  // Wide enough for every posted work request; a power of two.
  static constexpr uint32_t kRecords = 128;
  static_assert(kRecords >= kSendQueueDepth);

  enum class Kind : uint8_t { kFrame, kBulk, kMarker };
  struct Record {
    void* tag;      // Of a bulk transfer.
    uint32_t slot;  // That a frame holds.
    Kind kind;
  };

  bool HasPlace() const {
    return posted_ - done_ < kOwnSends || shared_.available();
  }
  // Adds a work request for `bytes` at `local` to the batch. Of its record the
  // caller fills in what its kind needs.
  ibv_send_wr* Add(Kind kind, ibv_wr_opcode opcode, const void* local,
                   uint32_t bytes, uint32_t lkey);
  Record& last_record() { return records_[(posted_ - 1) % kRecords]; }
  void TakeShared();
  absl::Status FlushIfFull();

  SendSlots& slots_;
  SendBatches& batches_;
  SharedSends& shared_;
  ibv_qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;

  SendBatch* batch_ = nullptr;  // Null when there is nothing to flush.
  uint8_t* frame_ = nullptr;    // From BeginFrame().
  uint32_t frame_slot_ = SendSlots::kNone;  // Where that is; kNone: scratch.
  uint32_t spare_slot_ = SendSlots::kNone;  // Begun, not posted.

  std::array<Record, kRecords> records_;  // By sequence number.
  uint64_t posted_ = 0;  // Work requests so far; the wr_id of the next.
  uint64_t done_ = 0;
  uint64_t frames_posted_ = 0;
  uint64_t frames_done_ = 0;
  uint64_t bulk_posted_ = 0;
  uint64_t bulk_done_ = 0;
  uint32_t shared_held_ = 0;  // Of shared_.
  uint32_t unsignalled_ = 0;  // Since the last signalled one.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_
