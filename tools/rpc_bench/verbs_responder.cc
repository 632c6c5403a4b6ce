#include "tools/rpc_bench/verbs_responder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "tools/rpc_bench/slot_queue.h"
#include "tools/rpc_bench/verbs_layout.h"

namespace verbena::bench {
namespace {

constexpr size_t kPollBatch = 32;

// Sends every message back from the slot that it arrived in. There are more
// slots than receives, so that others are posted while the answers leave.
class SmallEcho final : public VerbsResponder {
 public:
  SmallEcho(VerbsEnd& end, const VerbsHello& hello)
      : VerbsResponder(end),
        stride_(StrideOf(hello.size_bytes)),
        batch_(ReceiveBatch(hello)),
        sent_at_once_(hello.size_bytes <= end.inline_bytes()),
        leaving_(Slots(hello)),
        last_request_(Slots(hello)) {
    free_.reserve(Slots(hello));
    for (uint32_t i = Slots(hello); i-- > 0;) free_.push_back(i);
    unposted_ = ReceiveDepth(hello);
    PostReceives();
  }

  static uint32_t SendDepth(const VerbsHello& hello) {
    return 2 * hello.outstanding + 32;
  }
  static uint32_t Slots(const VerbsHello& hello) {
    return ReceiveDepth(hello) + SendDepth(hello);
  }

 private:
  void OnReceive(const ibv_wc& completion) override {
    const int slot = static_cast<int>(completion.wr_id);
    ++unposted_;
    if (end_.send_room() == 0) {
      // No correct client has so many messages under way.
      free_.push_back(slot);
      return;
    }
    end_.Queue({.opcode = IBV_WR_SEND,
                .offset = stride_ * slot,
                .length = completion.byte_len});
    if (sent_at_once_) {
      // Inline: posting it copies it, and that is before the receive.
      free_.push_back(slot);
    } else {
      last_request_[slot] = end_.queued();
      leaving_.Push(slot);
    }
  }

  void OnPolled() override {
    end_.FlushSends();
    while (!leaving_.empty() &&
           last_request_[leaving_.front()] <= end_.completed()) {
      free_.push_back(leaving_.Pop());
    }
    if (unposted_ >= batch_) PostReceives();
  }

  void PostReceives() {
    for (; unposted_ > 0 && !free_.empty(); --unposted_) {
      const int slot = free_.back();
      free_.pop_back();
      end_.QueueReceive(slot, stride_ * slot, static_cast<uint32_t>(stride_));
    }
    end_.FlushReceives();
  }

  const uint64_t stride_;
  const uint32_t batch_;
  const bool sent_at_once_;
  std::vector<int> free_;
  SlotQueue leaving_;  // Slots whose bytes may still be needed.
  std::vector<uint64_t> last_request_;
  uint32_t unposted_ = 0;  // Receives that are to be posted.
};

// Fetches the bytes that a notice names, puts them back and says so. The
// memory: a slot for each call, a notice for each, then receives.
class BulkEcho final : public VerbsResponder {
 public:
  BulkEcho(VerbsEnd& end, const VerbsHello& hello, uint64_t chunk_bytes)
      : VerbsResponder(end),
        hello_(hello),
        chunk_bytes_(chunk_bytes),
        stride_(StrideOf(hello.size_bytes)),
        notice_base_(stride_ * hello.outstanding),
        receive_base_(notice_base_ +
                      StrideOf(sizeof(BulkNotice) * hello.outstanding)),
        reading_(hello.outstanding) {
    for (uint32_t i = 0; i < hello.outstanding; ++i) {
      const BulkNotice notice = i;
      std::memcpy(end.memory() + NoticeOffset(i), &notice, sizeof(notice));
    }
    for (uint32_t i = 0; i < ReceiveDepth(hello); ++i) PostReceive(i);
    end.FlushReceives();
  }

  // Of each call the READs, the WRITEs and the notice; requests that are
  // complete may wait for a later one to say so.
  static uint64_t SendDepth(const VerbsHello& hello, uint64_t chunk_bytes) {
    return 2 * hello.outstanding *
               (2 * ChunksOf(hello.size_bytes, chunk_bytes) + 1) +
           16;
  }

 private:
  void OnReceive(const ibv_wc& completion) override {
    BulkNotice slot = 0;
    if (completion.byte_len >= sizeof(slot)) {
      std::memcpy(&slot,
                  end_.memory() + receive_base_ +
                      StrideOf(sizeof(slot)) * completion.wr_id,
                  sizeof(slot));
      const uint64_t needed = 2 * ChunksOf(hello_.size_bytes, chunk_bytes_) + 1;
      if (slot < hello_.outstanding && reading_.size() < hello_.outstanding &&
          end_.send_room() >= needed) {
        reading_.Push(static_cast<int>(slot));
        Move(slot, IBV_WR_RDMA_READ, hello_.address + stride_ * slot);
      }
    }
    PostReceive(completion.wr_id);
  }

  void OnReadComplete() override {
    if (reading_.empty()) return;
    const auto slot = static_cast<uint32_t>(reading_.Pop());
    Move(slot, IBV_WR_RDMA_WRITE,
         hello_.address + stride_ * (hello_.outstanding + slot));
    end_.Queue({.opcode = IBV_WR_SEND,
                .offset = NoticeOffset(slot),
                .length = sizeof(BulkNotice)});
  }

  void OnPolled() override {
    end_.FlushSends();
    end_.FlushReceives();
  }

  // READs say that they are complete; nobody waits for WRITEs.
  void Move(uint32_t slot, ibv_wr_opcode opcode, uint64_t remote_address) {
    uint64_t done = 0;
    do {
      const uint64_t length = std::min(chunk_bytes_, hello_.size_bytes - done);
      const bool last = done + length == hello_.size_bytes;
      end_.Queue({.opcode = opcode,
                  .offset = stride_ * slot + done,
                  .length = static_cast<uint32_t>(length),
                  .remote_address = remote_address + done,
                  .rkey = hello_.rkey,
                  .signalled = last && opcode == IBV_WR_RDMA_READ});
      done += length;
    } while (done < hello_.size_bytes);
  }

  void PostReceive(uint64_t index) {
    const uint64_t stride = StrideOf(sizeof(BulkNotice));
    end_.QueueReceive(index, receive_base_ + stride * index,
                      static_cast<uint32_t>(stride));
  }

  size_t NoticeOffset(uint32_t slot) const {
    return notice_base_ + slot * sizeof(BulkNotice);
  }

  const VerbsHello hello_;
  const uint64_t chunk_bytes_;
  const uint64_t stride_;
  const size_t notice_base_;
  const size_t receive_base_;
  SlotQueue reading_;  // Slots in the order of their READs.
};

// Takes SENDs and says how many more it takes. The memory: the receives, then a
// grant.
class StreamSink final : public VerbsResponder {
 public:
  StreamSink(VerbsEnd& end, const VerbsHello& hello)
      : VerbsResponder(end),
        stride_(StrideOf(hello.size_bytes)),
        batch_(std::max(1u, ReceiveDepth(hello) / 4)),
        grant_offset_(stride_ * ReceiveDepth(hello)) {
    std::memcpy(end.memory() + grant_offset_, &batch_, sizeof(batch_));
    for (uint32_t i = 0; i < ReceiveDepth(hello); ++i) PostReceive(i);
    end.FlushReceives();
  }

 private:
  void OnReceive(const ibv_wc& completion) override {
    PostReceive(completion.wr_id);
    if (++taken_ % batch_ != 0) return;
    // Posted before the client may use them.
    end_.FlushReceives();
    if (end_.send_room() == 0) return;
    end_.Queue({.opcode = IBV_WR_SEND,
                .offset = grant_offset_,
                .length = sizeof(batch_)});
  }

  void OnPolled() override { end_.FlushSends(); }

  void PostReceive(uint64_t index) {
    end_.QueueReceive(index, stride_ * index, static_cast<uint32_t>(stride_));
  }

  const uint64_t stride_;
  const uint32_t batch_;
  const size_t grant_offset_;
  uint64_t taken_ = 0;
};

// Does nothing; a software device may need the polling.
class StreamMemory final : public VerbsResponder {
 public:
  explicit StreamMemory(VerbsEnd& end) : VerbsResponder(end) {}

 private:
  void OnReceive(const ibv_wc& /*completion*/) override {}
};

}  // namespace

VerbsEnd::Options VerbsResponder::EndOptions(const VerbsHello& hello,
                                             uint64_t chunk_bytes) {
  VerbsEnd::Options options;
  options.inline_bytes = hello.inline_bytes;
  options.events = hello.events;
  options.receive_depth = ReceiveDepth(hello);
  options.send_depth = SmallEcho::SendDepth(hello);
  const uint64_t stride = StrideOf(hello.size_bytes);
  const uint64_t notices = StrideOf(sizeof(BulkNotice)) * options.receive_depth;
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      options.memory_bytes = stride * SmallEcho::Slots(hello);
      break;
    case VerbsPlan::kBulkEcho:
      options.send_depth =
          static_cast<uint32_t>(BulkEcho::SendDepth(hello, chunk_bytes));
      options.memory_bytes = stride * hello.outstanding +
                             StrideOf(sizeof(BulkNotice) * hello.outstanding) +
                             notices;
      break;
    case VerbsPlan::kSendStream:
      options.memory_bytes = stride * options.receive_depth + StrideOf(0);
      break;
    case VerbsPlan::kMemoryStream:
      options.remote_access = true;
      options.memory_bytes = stride * hello.outstanding;
      break;
  }
  return options;
}

std::unique_ptr<VerbsResponder> VerbsResponder::Create(VerbsEnd& end,
                                                       const VerbsHello& hello,
                                                       uint64_t chunk_bytes) {
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      return std::make_unique<SmallEcho>(end, hello);
    case VerbsPlan::kBulkEcho:
      return std::make_unique<BulkEcho>(end, hello, chunk_bytes);
    case VerbsPlan::kSendStream:
      return std::make_unique<StreamSink>(end, hello);
    case VerbsPlan::kMemoryStream:
      return std::make_unique<StreamMemory>(end);
  }
  return nullptr;
}

VerbsResponder::VerbsResponder(VerbsEnd& end)
    : end_(end), completions_(kPollBatch) {}

int VerbsResponder::Poll() {
  const int count = end_.Poll(absl::MakeSpan(completions_));
  for (int i = 0; i < count; ++i) {
    if (completions_[i].opcode == IBV_WC_RECV) {
      OnReceive(completions_[i]);
    } else if (completions_[i].opcode == IBV_WC_RDMA_READ) {
      OnReadComplete();
    }
  }
  if (count > 0) OnPolled();
  return count;
}

}  // namespace verbena::bench
