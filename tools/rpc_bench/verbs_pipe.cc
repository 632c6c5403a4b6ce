#include "tools/rpc_bench/verbs_pipe.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/payload.h"
#include "tools/rpc_bench/slot_queue.h"
#include "tools/rpc_bench/verbs_layout.h"

namespace verbena::bench {
namespace {

// Completions taken in one poll.
constexpr size_t kPollBatch = 32;

using Bytes = absl::Span<uint8_t>;
using ConstBytes = absl::Span<const uint8_t>;

// A SEND there, a SEND back. The memory: a slot for each call, then receives.
class SmallEchoPipe final : public VerbsPipe {
 public:
  SmallEchoPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured)
      : VerbsPipe(end, hello, measured,
                  StrideOf(hello.size_bytes) * hello.outstanding,
                  hello.size_bytes),
        under_way_(hello.outstanding) {
    for (uint32_t i = 0; i < hello.outstanding; ++i) {
      std::copy(payload_.begin(), payload_.end(), Slot(i).begin());
    }
  }

  void Start(int slot) override {
    if (case_.validate) Stamp(++calls_, Slot(slot));
    under_way_.Push(slot);
    end_.Queue({.opcode = IBV_WR_SEND,
                .offset = stride_ * slot,
                .length = static_cast<uint32_t>(hello_.size_bytes)});
  }

 private:
  // Answers come in the order of the questions.
  void OnReceive(Sink& sink, ConstBytes bytes) override {
    if (under_way_.empty()) return;
    const int slot = under_way_.Pop();
    const bool compare = MustCompare();
    const absl::Status status = CheckEcho(bytes, Slot(slot), compare);
    if (status.ok() && compare) compared_ = true;
    sink.OnEnded(slot, status);
  }

  Bytes Slot(int slot) {
    return {end_.memory() + stride_ * slot, hello_.size_bytes};
  }

  SlotQueue under_way_;
};

// The server fetches the bytes and puts them back. The memory: what is sent of
// each call, then what comes back of each, a notice of each, then receives.
class BulkEchoPipe final : public VerbsPipe {
 public:
  BulkEchoPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured)
      : VerbsPipe(end, hello, measured, NoticeBase(hello) + NoticeBytes(hello),
                  sizeof(BulkNotice)) {
    for (uint32_t i = 0; i < hello.outstanding; ++i) {
      std::copy(payload_.begin(), payload_.end(), Sent(i).begin());
      const BulkNotice notice = i;
      std::memcpy(end_.memory() + NoticeOffset(i), &notice, sizeof(notice));
    }
  }

  static size_t NoticeBase(const VerbsHello& hello) {
    return 2 * StrideOf(hello.size_bytes) * hello.outstanding;
  }
  static size_t NoticeBytes(const VerbsHello& hello) {
    return StrideOf(sizeof(BulkNotice) * hello.outstanding);
  }

  void Start(int slot) override {
    if (case_.validate) Stamp(++calls_, Sent(slot));
    end_.Queue({.opcode = IBV_WR_SEND,
                .offset = NoticeOffset(slot),
                .length = sizeof(BulkNotice)});
  }

 private:
  void OnReceive(Sink& sink, ConstBytes bytes) override {
    BulkNotice slot = 0;
    if (bytes.size() < sizeof(slot)) return;
    std::memcpy(&slot, bytes.data(), sizeof(slot));
    if (slot >= hello_.outstanding) return;
    const bool compare = MustCompare();
    const absl::Status status = CheckEcho(Returned(slot), Sent(slot), compare);
    if (status.ok() && compare) compared_ = true;
    sink.OnEnded(static_cast<int>(slot), status);
  }

  size_t NoticeOffset(uint32_t slot) const {
    return NoticeBase(hello_) + slot * sizeof(BulkNotice);
  }
  Bytes Sent(uint32_t slot) {
    return {end_.memory() + stride_ * slot, hello_.size_bytes};
  }
  ConstBytes Returned(uint32_t slot) {
    return {end_.memory() + stride_ * (hello_.outstanding + slot),
            hello_.size_bytes};
  }
};

// One way: SENDs as far as the server has room, WRITEs or READs. A call ends
// when its request is complete. The memory: a slot for each call, then receives
// for what the server says.
class StreamPipe final : public VerbsPipe {
 public:
  StreamPipe(VerbsEnd& end, const VerbsHello& hello, const Case& measured)
      : VerbsPipe(end, hello, measured,
                  StrideOf(hello.size_bytes) * hello.outstanding,
                  sizeof(uint32_t)),
        waiting_(hello.outstanding),
        under_way_(hello.outstanding),
        last_request_(hello.outstanding),
        granted_(ReceiveDepth(hello)) {
    for (uint32_t i = 0; i < hello.outstanding; ++i) {
      std::copy(payload_.begin(), payload_.end(), end.memory() + stride_ * i);
    }
  }

  void Start(int slot) override {
    if (case_.op == Op::kSend && sent_ == granted_) {
      waiting_.Push(slot);
    } else {
      Send(slot);
    }
  }

 private:
  void Send(int slot) {
    ++sent_;
    VerbsEnd::Request request;
    request.opcode = case_.op == Op::kSend    ? IBV_WR_SEND
                     : case_.op == Op::kWrite ? IBV_WR_RDMA_WRITE
                                              : IBV_WR_RDMA_READ;
    request.offset = stride_ * slot;
    request.length = static_cast<uint32_t>(hello_.size_bytes);
    request.remote_address = welcome_.address + stride_ * slot;
    request.rkey = welcome_.rkey;
    end_.Queue(request);
    last_request_[slot] = end_.queued();
    under_way_.Push(slot);
  }

  void OnReceive(Sink& /*sink*/, ConstBytes bytes) override {
    uint32_t more = 0;
    if (bytes.size() < sizeof(more)) return;
    std::memcpy(&more, bytes.data(), sizeof(more));
    granted_ += more;
    while (!waiting_.empty() && sent_ < granted_) Send(waiting_.Pop());
  }

  void OnSendsComplete(Sink& sink) override {
    while (!under_way_.empty() &&
           last_request_[under_way_.front()] <= end_.completed()) {
      sink.OnEnded(under_way_.Pop(), absl::OkStatus());
    }
  }

  SlotQueue waiting_;                   // For the server's receives.
  SlotQueue under_way_;                 // In the order of their requests.
  std::vector<uint64_t> last_request_;  // Of the call in each slot.
  uint64_t granted_;                    // SENDs that the server has taken on.
  uint64_t sent_ = 0;
};

}  // namespace

VerbsEnd::Options VerbsPipe::EndOptions(const VerbsHello& hello) {
  VerbsEnd::Options options;
  options.inline_bytes = hello.inline_bytes;
  options.events = hello.events;
  options.receive_depth = ReceiveDepth(hello);
  // Requests stay in the queue until a completion that covers them is polled,
  // and the last of them may be one in sixteen.
  options.send_depth = 2 * hello.outstanding + 32;
  const uint64_t slots = StrideOf(hello.size_bytes) * hello.outstanding;
  const uint64_t notices = StrideOf(sizeof(BulkNotice)) * options.receive_depth;
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      options.memory_bytes =
          slots + StrideOf(hello.size_bytes) * options.receive_depth;
      break;
    case VerbsPlan::kBulkEcho:
      options.remote_access = true;
      options.memory_bytes = BulkEchoPipe::NoticeBase(hello) +
                             BulkEchoPipe::NoticeBytes(hello) + notices;
      break;
    case VerbsPlan::kSendStream:
    case VerbsPlan::kMemoryStream:
      options.signal_chains = true;
      options.memory_bytes = slots + notices;
      break;
  }
  return options;
}

std::unique_ptr<VerbsPipe> VerbsPipe::Create(VerbsEnd& end,
                                             const VerbsHello& hello,
                                             const Case& measured) {
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      return std::make_unique<SmallEchoPipe>(end, hello, measured);
    case VerbsPlan::kBulkEcho:
      return std::make_unique<BulkEchoPipe>(end, hello, measured);
    case VerbsPlan::kSendStream:
    case VerbsPlan::kMemoryStream:
      return std::make_unique<StreamPipe>(end, hello, measured);
  }
  return nullptr;
}

VerbsPipe::VerbsPipe(VerbsEnd& end, const VerbsHello& hello,
                     const Case& measured, size_t receive_base,
                     uint64_t receive_bytes)
    : end_(end),
      hello_(hello),
      case_(measured),
      payload_(Payload(hello.size_bytes)),
      stride_(StrideOf(hello.size_bytes)),
      receive_base_(receive_base),
      receive_stride_(StrideOf(receive_bytes)),
      receive_batch_(ReceiveBatch(hello)),
      completions_(kPollBatch) {
  for (uint32_t i = 0; i < ReceiveDepth(hello); ++i) PostAgain(i);
  end_.FlushReceives();
}

void VerbsPipe::PostAgain(uint64_t slot) {
  end_.QueueReceive(slot, receive_base_ + receive_stride_ * slot,
                    static_cast<uint32_t>(receive_stride_));
}

absl::Status VerbsPipe::Poll(Sink& sink, absl::Time until) {
  end_.FlushSends();
  if (PollOnce(sink) > 0 || !hello_.events || absl::Now() >= until) {
    return end_.status();
  }
  end_.Arm();
  if (PollOnce(sink) == 0 && end_.status().ok()) end_.Wait({}, until);
  return end_.status();
}

// Returns how much has come.
int VerbsPipe::PollOnce(Sink& sink) {
  const int count = end_.Poll(absl::MakeSpan(completions_));
  bool sent = false;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions_[i];
    if (completion.opcode != IBV_WC_RECV) {
      sent = true;
      continue;
    }
    OnReceive(sink, {end_.memory() + receive_base_ +
                         receive_stride_ * completion.wr_id,
                     completion.byte_len});
    PostAgain(completion.wr_id);
  }
  if (sent) OnSendsComplete(sink);
  // What the answers started goes out first: the peer waits for that.
  end_.FlushSends();
  if (end_.queued_receives() >= receive_batch_) end_.FlushReceives();
  return count;
}

}  // namespace verbena::bench
