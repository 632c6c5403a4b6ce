// Work requests that one connection has posted and not seen completed.

#ifndef VERBENA_TRANSPORT_SESSION_SEND_QUEUE_H_
#define VERBENA_TRANSPORT_SESSION_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/seal.h"
#include "transport/device/send_batch.h"
#include "transport/device/send_buffers.h"
#include "transport/device/shared_sends.h"
#include "transport/session/stall_watch.h"

namespace verbena::transport {

// Where a READ or WRITE goes.
struct BulkChunk {
  uint8_t* local = nullptr;
  uint32_t lkey = 0;
  uint32_t bytes = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
};

// The send queue of one queue pair: frames, READs and WRITEs, and the
// bookkeeping that tells from a completion what has been finished. Frames
// complete in order, so one completion finishes all frames posted before it;
// only some frames are signalled for that reason. READs and WRITEs are
// signalled each. A device of iWARP completes a READ when its answer has come,
// maybe behind frames that were posted later: then those wait for it here.
//
// Work requests go to the device in the order posted, but only with the next
// Flush(): one doorbell for many.
//
// Room is counted by completions, never by guesses: nothing is posted that the
// queue pair has no room for. Not thread-safe: confined to the poller's
// thread.
class SendQueue {
 public:
  // All are the device's, shared with its other queues; they outlive it.
  SendQueue(SendBuffers& buffers, SendBatches& batches, SharedSends& shared)
      : buffers_(buffers), batches_(batches), shared_(shared) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  // REQUIRES: the queue pair is gone.
  ~SendQueue();

  // The queue pair, which takes `depth` work requests and at most
  // `inline_bytes` inline. REQUIRES: depth >= kLeastSendDepth.
  void Attach(ibv_qp* qp, uint32_t inline_bytes,
              uint32_t depth = kSendQueueDepth);

  // Whether there is room for a frame, in the queue pair and in the completion
  // queue. If not, there will be after the next completion.
  bool HasFrameRoom() const {
    return frames_.under_way() < frames_.depth && HasRoom();
  }

  // Whether so many frames can be posted now, each of which takes a buffer, and
  // others that take none.
  bool HasRoomFor(uint32_t frames, uint32_t without_buffer = 0) {
    const uint32_t requests = frames + without_buffer;
    const bool own = posted_ - done_ + requests <= kOwnSends;
    return frames_.under_way() + requests <= frames_.depth &&
           (own || shared_.available(requests)) &&
           buffers_.InShare(buffers_held_, frames) && buffers_.Prepare(frames);
  }

  // Memory for the next frame, of at most `bytes`, until it is posted; on a
  // multiple of 64. Null if it takes a buffer, and all are held or those that
  // this queue may hold: there is one after the next completion, or where none
  // is awaited, when another queue gives one back. REQUIRES:
  // HasFrameRoom(); bytes <= kBufferBytes.
  uint8_t* BeginFrame(uint32_t bytes) {
    if (batch_ == nullptr) batch_ = batches_.Acquire();
    train_.begun = nullptr;
    if (ABSL_PREDICT_TRUE(bytes <= inline_bytes_)) {
      frame_ = batch_->scratch();
      frame_buffer_ = SendBuffers::kNone;
    } else {
      if (!HaveSpareBuffer()) return nullptr;
      CHECK_LE(bytes, kBufferBytes);
      frame_buffer_ = spare_buffer_;
      frame_ = buffers_.At(frame_buffer_);
    }
    return frame_;
  }

  // The frame that BeginFrame() returned last.
  uint8_t* frame() const { return frame_; }

  // Sends the first `bytes` of frame(). `signalled`: its completion is wanted
  // soon. `invalidates`, if not 0, is a key of the peer that goes with it, as
  // SEND with invalidate. Returns 0, or the errno of a device that refuses:
  // then the connection is lost. REQUIRES: BeginFrame() returned non-null since
  // the last frame was posted.
  int PostFrame(uint32_t bytes, bool signalled, uint32_t invalidates = 0);

  // Everything that was begun goes to the device; what follows is sealed as it
  // is handed over, and is kSealedFrameBytes longer. Returns what PostFrame()
  // does. `sealer` must outlive the queue.
  int BeginSealing(Sealer* sealer);
  // The frame that is posted next has parts beside it: the number of the first
  // chunk is sealed with it.
  void set_first_chunk(uint64_t number) { first_chunk_ = number; }

  // --- Trains (see frame.h): several frames in one SEND ---

  // The frame that was posted last, of so many bytes, may be the first one of a
  // train until the next Flush(), and as long as nothing else is posted.
  void BeginTrain(uint32_t bytes) {
    if (batch_ == nullptr) return;  // The device has the frame already.
    train_.wr = &batch_->last();
    train_.bytes = bytes;
    train_.frames = 1;
  }
  bool has_train() const { return train_.wr != nullptr; }
  // Memory for the next frame of the train, of `bytes`, until PostInTrain().
  // Null if the train would become longer than `room`, or needs a buffer and
  // all are held: then the frame goes in a SEND of its own. REQUIRES:
  // has_train().
  uint8_t* BeginInTrain(uint32_t bytes, uint32_t room);
  // Whether what is to be posted next was begun by BeginInTrain().
  bool begun_in_train() const { return train_.begun != nullptr; }
  // Adds the first `bytes` of what BeginInTrain() returned to the train.
  // Returns what PostFrame() does: a train that is full goes to the device at
  // once.
  int PostInTrain(uint32_t bytes);

  // Binds a window of type 2; it counts as a frame. Returns what PostFrame()
  // does. REQUIRES: HasFrameRoom(); no frame has been begun that is to be
  // posted.
  int PostBind(ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& part);

  // Whether there is room for a READ or WRITE.
  bool HasBulkRoom() const {
    return bulk_.under_way() < bulk_.depth && HasRoom();
  }

  // Posts a READ or a WRITE; `tag` comes back when it is done. Returns what
  // PostFrame() does. REQUIRES: HasBulkRoom(); the memory stays until then.
  int PostBulk(ibv_wr_opcode opcode, const BulkChunk& chunk, void* tag);

  // Invalidates a key of this side's; as PostBulk(), and with its room.
  int PostInvalidate(uint32_t rkey, void* tag);

  // Posts a WRITE of no bytes, which changes nothing at the peer; as PostBulk()
  // with a null tag, and with its room.
  int PostEmptyWrite();

  // Hands what was posted to the device. Returns what PostFrame() does.
  int Flush();

  // After the queue pair was put into the error state: posts something whose
  // flush ends everything before it, the silent successes included. Returns
  // false if the device refuses it: then nothing may ever come of what was
  // posted.
  bool PostDrainMarker();

  // Handles the completion of `wr_id`, whatever its status, and calls
  // `bulk_done` with the tag of every READ and WRITE that it finishes. Returns
  // false, and does nothing, if no such request is under way: then the device
  // is not to be trusted any more.
  bool Complete(uint64_t wr_id, absl::FunctionRef<void(void*)> bulk_done);

  // Whether everything that was posted is done.
  bool idle() const { return posted_ == done_; }
  // Whether a completion will come without anything that is posted later.
  bool awaits_completion() const { return posted_ - done_ > unsignalled_; }
  // The numbers of the work requests that are not known to be complete, though
  // a completion will tell that they are, without anything that is posted
  // later.
  std::optional<StallWatch::Line> Awaited() const {
    if (!awaits_completion()) return std::nullopt;
    return StallWatch::Line{done_, posted_ - unsignalled_};
  }

 private:
  // Wide enough for every posted work request; a power of two.
  static constexpr uint32_t kRecords = 128;
  static_assert(kRecords >= kSendQueueDepth);

  // Requests of one kind, of which `depth` may be under way.
  struct Flow {
    uint32_t depth;
    uint64_t posted = 0;
    uint64_t done = 0;

    uint64_t under_way() const { return posted - done; }
  };
  struct Train {
    // The last work request of the batch; null if there is no train.
    ibv_send_wr* wr = nullptr;
    // The result of BeginInTrain(), until PostInTrain().
    uint8_t* begun = nullptr;
    uint32_t bytes = 0;
    uint32_t frames = 0;
  };
  enum class Kind : uint8_t { kFrame, kBulk, kDoneBulk, kMarker };
  struct Record {
    union {
      void* tag;             // The argument of PostBulk().
      uint64_t first_chunk;  // Number sealed with a frame; 0: none.
    };
    uint32_t buffer;  // The send buffer that a frame holds, or kNone.
    Kind kind;
  };

  bool HasRoom() const {
    return posted_ - done_ < kOwnSends || shared_.available();
  }
  // Seals the frames of the batch.
  void SealBatch();
  // Adds a work request for `bytes` at `local` to the batch, as number posted_.
  // The caller fills in what its kind needs, and its record.
  ibv_send_wr* Add(const void* local, uint32_t bytes, uint32_t lkey);
  // Adds one that is no frame and has no scatter element, with its record.
  ibv_send_wr* AddOther(ibv_wr_opcode opcode, const Record& record,
                        unsigned int flags);
  // Takes room of the device's for one more work request than kOwnSends.
  void TakeShared() {
    CHECK(shared_.available());
    shared_.Take();
    ++shared_held_;
  }
  // Has spare_buffer_ be a buffer, if there is one to have. Beyond its share
  // a queue takes one only if it awaits no completion: buffers are scarce then,
  // so the frame in it is signalled, and all that the queue holds comes back.
  bool HaveSpareBuffer() {
    if (spare_buffer_ != SendBuffers::kNone) return true;
    if (ABSL_PREDICT_FALSE(!buffers_.InShare(buffers_held_, 1)) &&
        awaits_completion()) {
      return false;
    }
    spare_buffer_ = buffers_.Acquire();
    if (spare_buffer_ == SendBuffers::kNone) return false;
    ++buffers_held_;
    return true;
  }
  // Has the train stand in a send buffer, which it holds from now on. False if
  // there is none.
  bool MoveTrainToBuffer();
  // Request `wr_id` is done, and a READ or WRITE before it is not.
  void NoteOvertaking(uint64_t wr_id);
  // Makes the request that was added count, and rings the doorbell if the batch
  // is full.
  int Count(unsigned int flags);

  SendBuffers& buffers_;
  SendBatches& batches_;
  SharedSends& shared_;
  ibv_qp* qp_ = nullptr;
  uint32_t inline_bytes_ = 0;  // The longest frame that is posted inline.
  Sealer* sealer_ = nullptr;   // Null until frames are sealed.
  uint64_t sealed_ = 0;        // Frames so far; the number of the next.
  uint64_t first_chunk_ = 0;   // Number for the next frame; 0: none.
  uint32_t signal_interval_ = kSignalInterval;

  SendBatch* batch_ = nullptr;  // Null when there is nothing to flush.
  uint8_t* frame_ = nullptr;    // What BeginFrame() returned last.
  // The buffer that frame_ is; kNone if it is scratch memory of the batch.
  uint32_t frame_buffer_ = SendBuffers::kNone;
  // A buffer in which a frame was begun and that none holds that was posted.
  uint32_t spare_buffer_ = SendBuffers::kNone;

  Train train_;

  std::array<Record, kRecords> records_;  // By sequence number.
  uint64_t posted_ = 0;  // Work requests so far; the wr_id of the next.
  uint64_t done_ = 0;
  // The last request that is done although others before it may not be.
  uint64_t overtaking_ = 0;
  Flow frames_{kFrameDepth};
  Flow bulk_{kBulkDepth};      // READs and WRITEs.
  uint32_t buffers_held_ = 0;  // By posted frames, and spare_buffer_.
  uint32_t shared_held_ = 0;   // Work requests under way beyond kOwnSends.
  uint32_t unsignalled_ = 0;   // Frames since the last signalled request.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_SEND_QUEUE_H_
