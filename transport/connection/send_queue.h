// What one connection has posted and not seen completed.

#ifndef VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_
#define VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Where a READ or WRITE goes.
struct BulkChunk {
  uint8_t* local = nullptr;
  uint32_t lkey = 0;
  uint32_t bytes = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
};

// The send queue of one queue pair: slots for frames, READs and WRITEs, and the
// bookkeeping that tells from a completion what has been finished. A reliable
// connection completes in order, so one completion finishes everything posted
// before it; only some frames are signalled for that reason.
//
// Slots are counted by completions, never by guesses: nothing is posted that
// the queue pair has no room for. Not thread-safe: confined to the poller's
// role.
class SendQueue {
 public:
  // The memory of the frames. The protection domain must outlive the queue.
  static absl::StatusOr<SendQueue> Create(const ProtectionDomain& pd);

  // The queue pair, made with QpDepth() and at most `inline_bytes` inline.
  void Attach(ibv_qp* qp, uint32_t inline_bytes);

  // Send work requests that the queue pair must have room for.
  static constexpr uint32_t kQpDepth =
      kSendQueueDepth + 1;  // The drain marker.

  // Whether a frame can be posted now. Frames that need credits leave the slots
  // of the control frames alone.
  bool HasFrameSlot(bool control) const {
    const uint64_t used = frames_posted_ - frames_done_;
    return used < (control ? kFrameDepth : kFrameDepth - kControlReceives);
  }

  // Frames that need credits and can be posted now.
  uint32_t FreeFrameSlots() const {
    const uint64_t used = frames_posted_ - frames_done_;
    constexpr uint32_t kMost = kFrameDepth - kControlReceives;
    return used < kMost ? kMost - static_cast<uint32_t>(used) : 0;
  }

  // Memory for the next frame: kSlotBytes. REQUIRES: HasFrameSlot().
  uint8_t* NextFrame() {
    return memory_.data() + (frames_posted_ % kFrameDepth) * kSlotBytes;
  }

  // Sends the first `bytes` of NextFrame(). `signalled`: its completion is
  // wanted soon. Fails only when the device refuses, and then the connection is
  // lost.
  absl::Status PostFrame(uint32_t bytes, bool signalled);

  bool HasBulkSlot() const { return bulk_posted_ - bulk_done_ < kBulkDepth; }

  // Posts a READ or a WRITE; `tag` comes back when it is done. REQUIRES:
  // HasBulkSlot(); the memory stays until then.
  absl::Status PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk,
                        void* tag);

  // After the queue pair was put into the error state: posts something whose
  // flush ends everything before it, the silent successes included.
  void PostDrainMarker();

  // Handles the completion of `wr_id`, whatever its status, and calls
  // `bulk_done` with the tag of every READ and WRITE that it finishes.
  void Complete(uint64_t wr_id, absl::FunctionRef<void(void*)> bulk_done);

  // Nothing is posted any more.
  bool idle() const { return posted_ == done_; }

 private:
  // Wide enough for every posted work request; a power of two.
  static constexpr uint32_t kRecords = 128;
  static_assert(kRecords >= kQpDepth);

  enum class Kind : uint8_t { kFrame, kBulk, kMarker };
  struct Record {
    Kind kind = Kind::kFrame;
    void* tag = nullptr;
  };

  explicit SendQueue(RegisteredMemory memory) : memory_(std::move(memory)) {}
  absl::Status Post(ibv_send_wr* wr, Kind kind, void* tag);

  RegisteredMemory memory_;  // kFrameDepth slots.
  ibv_qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;

  std::array<Record, kRecords> records_;  // By sequence number.
  uint64_t posted_ = 0;  // Work requests so far; the wr_id of the next.
  uint64_t done_ = 0;
  uint64_t frames_posted_ = 0;
  uint64_t frames_done_ = 0;
  uint64_t bulk_posted_ = 0;
  uint64_t bulk_done_ = 0;
  uint32_t unsignalled_ = 0;  // Since the last signalled one.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_SEND_QUEUE_H_
