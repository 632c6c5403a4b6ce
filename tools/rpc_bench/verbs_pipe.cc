#include "tools/rpc_bench/verbs_pipe.h"

#include <algorithm>
#include <string>

#include "absl/time/clock.h"

namespace verbena::bench {
namespace {

// Completions taken in one poll.
constexpr size_t kPollBatch = 32;

}  // namespace

VerbsEnd::Options VerbsPipe::EndOptions(const VerbsHello& hello) {
  uint64_t slots = hello.outstanding;
  if (hello.plan == VerbsPlan::kSmallEcho) slots += ReceiveDepth(hello);
  if (hello.plan == VerbsPlan::kBulkEcho) slots += hello.outstanding;
  VerbsEnd::Options options;
  options.inline_bytes = hello.inline_bytes;
  options.events = hello.events != 0;
  options.receive_depth = ReceiveDepth(hello);
  options.send_depth = SendDepth(hello);
  options.memory_bytes = StrideOf(hello) * slots;
  options.remote_access = hello.plan == VerbsPlan::kBulkEcho;
  // Nothing but its own completion says that a stream's request has arrived.
  options.signal_chains = hello.plan == VerbsPlan::kSendStream ||
                          hello.plan == VerbsPlan::kMemoryStream;
  return options;
}

VerbsPipe::VerbsPipe(VerbsEnd& end, const VerbsHello& hello,
                     const Case& measured)
    : end_(end),
      hello_(hello),
      case_(measured),
      stride_(StrideOf(hello)),
      waiting_(hello.outstanding),
      under_way_(hello.outstanding),
      last_request_(hello.outstanding),
      granted_(ReceiveDepth(hello)),
      completions_(kPollBatch) {
  const std::string payload = Payload(hello.size_bytes);
  for (uint32_t i = 0; i < hello.outstanding; ++i) {
    std::copy(payload.begin(), payload.end(), Slot(i).begin());
  }
  for (uint32_t i = 0; i < ReceiveDepth(hello); ++i) PostAgain(i);
  end_.FlushReceives();
}

void VerbsPipe::PostAgain(uint64_t receive) {
  // The others' messages are an immediate number, without bytes.
  const bool bytes = hello_.plan == VerbsPlan::kSmallEcho;
  end_.QueueReceive(receive, Offset(hello_.outstanding + receive),
                    static_cast<uint32_t>(bytes ? stride_ : 0));
}

void VerbsPipe::Start(int slot) {
  if (case_.validate) Stamp(++calls_, Slot(slot));
  if (hello_.plan == VerbsPlan::kSendStream && sent_ == granted_) {
    waiting_.Push(slot);
  } else {
    Send(slot);
  }
}

void VerbsPipe::Send(int slot) {
  ++sent_;
  if (hello_.plan == VerbsPlan::kBulkEcho) {
    end_.Queue({.opcode = IBV_WR_SEND_WITH_IMM,
                .immediate = static_cast<uint32_t>(slot)});
    return;
  }
  end_.Queue({.opcode = case_.op == Op::kWrite  ? IBV_WR_RDMA_WRITE
                        : case_.op == Op::kRead ? IBV_WR_RDMA_READ
                                                : IBV_WR_SEND,
              .offset = Offset(slot),
              .length = static_cast<uint32_t>(hello_.size_bytes),
              .remote_address = welcome_.address + Offset(slot),
              .rkey = welcome_.rkey});
  last_request_[slot] = end_.queued();
  under_way_.Push(slot);
}

absl::Status VerbsPipe::Poll(Sink& sink, absl::Time until) {
  end_.FlushSends();
  if (PollOnce(sink) > 0 || hello_.events == 0 || absl::Now() >= until) {
    return end_.status();
  }
  end_.Arm();
  if (PollOnce(sink) == 0 && end_.status().ok()) end_.Wait({}, until);
  return end_.status();
}

int VerbsPipe::PollOnce(Sink& sink) {
  const int count = end_.Poll(absl::MakeSpan(completions_));
  bool sent = false;
  for (int i = 0; i < count; ++i) {
    if (completions_[i].opcode != IBV_WC_RECV) {
      sent = true;
      continue;
    }
    OnReceive(sink, completions_[i]);
    PostAgain(completions_[i].wr_id);
  }
  if (sent && hello_.plan >= VerbsPlan::kSendStream) EndSent(sink);
  // What the answers started goes out first: the peer waits for that.
  end_.FlushSends();
  if (end_.queued_receives() >= ReceiveBatch(hello_)) end_.FlushReceives();
  return count;
}

void VerbsPipe::OnReceive(Sink& sink, const ibv_wc& completion) {
  switch (hello_.plan) {
    case VerbsPlan::kSmallEcho:
      // Answers come in the order of the questions.
      if (under_way_.empty()) return;
      EndEcho(sink, under_way_.Pop(),
              {Slot(hello_.outstanding + completion.wr_id).data(),
               completion.byte_len});
      break;
    case VerbsPlan::kBulkEcho:
      if (completion.imm_data >= hello_.outstanding) return;
      EndEcho(sink, static_cast<int>(completion.imm_data),
              Slot(hello_.outstanding + completion.imm_data));
      break;
    case VerbsPlan::kSendStream:
      granted_ += completion.imm_data;
      while (!waiting_.empty() && sent_ < granted_) Send(waiting_.Pop());
      break;
    case VerbsPlan::kMemoryStream:
      break;
  }
}

void VerbsPipe::EndEcho(Sink& sink, int slot, absl::Span<const uint8_t> bytes) {
  const bool compare = case_.validate || !compared_;
  const absl::Status status = CheckEcho(bytes, Slot(slot), compare);
  if (status.ok()) compared_ = true;
  sink.OnEnded(slot, status);
}

void VerbsPipe::EndSent(Sink& sink) {
  while (!under_way_.empty() &&
         last_request_[under_way_.front()] <= end_.completed()) {
    sink.OnEnded(under_way_.Pop(), absl::OkStatus());
  }
}

}  // namespace verbena::bench
