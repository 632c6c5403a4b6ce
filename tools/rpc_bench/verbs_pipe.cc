#include "tools/rpc_bench/verbs_pipe.h"

#include <algorithm>
#include <string>

#include "absl/time/clock.h"

namespace verbena::bench {
namespace {

// Removes the first of a queue that is not empty.
int Pop(std::deque<int>& queue) {
  const int first = queue.front();
  queue.pop_front();
  return first;
}

}  // namespace

VerbsEnd::Options VerbsPipe::EndOptions(const VerbsHello& hello) {
  uint64_t slots = hello.outstanding;
  if (hello.plan == VerbsPlan::kSmallEcho) slots += hello.ReceiveDepth();
  if (hello.plan == VerbsPlan::kBulkEcho) slots += hello.outstanding;
  return {.send_depth = hello.SendDepth(),
          .receive_depth = hello.ReceiveDepth(),
          .memory_bytes = hello.Stride() * slots,
          .remote_access = hello.plan == VerbsPlan::kBulkEcho,
          .events = hello.events != 0,
          // Nothing but its own completion says that a stream's request has
          // arrived.
          .signal_chains = hello.plan >= VerbsPlan::kSendStream};
}

VerbsPipe::VerbsPipe(VerbsEnd& end, const VerbsHello& hello,
                     const Case& measured)
    : end_(end),
      hello_(hello),
      op_(measured.op),
      stride_(hello.Stride()),
      check_(measured.validate),
      last_request_(hello.outstanding),
      granted_(hello.ReceiveDepth()) {
  const std::string payload = Payload(hello.size_bytes);
  for (uint32_t i = 0; i < hello.outstanding; ++i) {
    std::copy(payload.begin(), payload.end(), Slot(i).begin());
  }
  for (uint32_t i = 0; i < hello.ReceiveDepth(); ++i) PostAgain(i);
  end_.FlushReceives();
}

void VerbsPipe::PostAgain(uint64_t receive) {
  // The others' messages are an immediate number, without bytes.
  const bool bytes = hello_.plan == VerbsPlan::kSmallEcho;
  end_.QueueReceive(receive, Offset(hello_.outstanding + receive),
                    static_cast<uint32_t>(bytes ? stride_ : 0));
}

void VerbsPipe::Start(int slot) {
  check_.Stamp(Slot(slot));
  if (hello_.plan == VerbsPlan::kSendStream && sent_ == granted_) {
    waiting_.push_back(slot);
  } else {
    Send(slot);
  }
}

void VerbsPipe::Send(int slot) {
  ++sent_;
  if (hello_.plan == VerbsPlan::kBulkEcho) {
    end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data =
        static_cast<uint32_t>(slot);
    return;
  }
  ibv_send_wr& request =
      end_.Queue(op_ == Op::kWrite  ? IBV_WR_RDMA_WRITE
                 : op_ == Op::kRead ? IBV_WR_RDMA_READ
                                    : IBV_WR_SEND,
                 Offset(slot), static_cast<uint32_t>(hello_.size_bytes));
  request.wr.rdma = {server_.address + Offset(slot), server_.rkey};
  last_request_[slot] = end_.queued();
  under_way_.push_back(slot);
}

absl::Status VerbsPipe::Poll(Sink& sink, absl::Time until) {
  end_.FlushSends();
  if (PollOnce(sink) > 0 || hello_.events == 0 || absl::Now() >= until) {
    return end_.status();
  }
  end_.Arm();
  if (PollOnce(sink) == 0 && end_.status().ok()) end_.Wait({-1, -1}, until);
  return end_.status();
}

size_t VerbsPipe::PollOnce(Sink& sink) {
  const absl::Span<const ibv_wc> completions = end_.Poll();
  bool sent = false;
  for (const ibv_wc& completion : completions) {
    if (completion.opcode != IBV_WC_RECV) {
      sent = true;
      continue;
    }
    OnReceive(sink, completion);
    PostAgain(completion.wr_id);
  }
  if (sent && hello_.plan >= VerbsPlan::kSendStream) EndSent(sink);
  // What the answers started goes out first: the peer waits for that.
  end_.FlushSends();
  if (end_.queued_receives() >= hello_.ReceiveBatch()) end_.FlushReceives();
  return completions.size();
}

void VerbsPipe::OnReceive(Sink& sink, const ibv_wc& completion) {
  switch (hello_.plan) {
    case VerbsPlan::kSmallEcho: {
      // Answers come in the order of the questions.
      if (under_way_.empty()) return;
      const int slot = Pop(under_way_);
      const uint8_t* const got =
          end_.memory() + Offset(hello_.outstanding + completion.wr_id);
      sink.OnEnded(slot,
                   check_.Compare({got, completion.byte_len}, Slot(slot)));
      break;
    }
    case VerbsPlan::kBulkEcho: {
      const uint32_t slot = completion.imm_data;
      if (slot >= hello_.outstanding) return;
      sink.OnEnded(static_cast<int>(slot),
                   check_.Compare(Slot(hello_.outstanding + slot), Slot(slot)));
      break;
    }
    case VerbsPlan::kSendStream:
      granted_ += completion.imm_data;
      while (!waiting_.empty() && sent_ < granted_) Send(Pop(waiting_));
      break;
    case VerbsPlan::kMemoryStream:
      break;
  }
}

void VerbsPipe::EndSent(Sink& sink) {
  while (!under_way_.empty() &&
         last_request_[under_way_.front()] <= end_.completed()) {
    sink.OnEnded(Pop(under_way_), absl::OkStatus());
  }
}

}  // namespace verbena::bench
