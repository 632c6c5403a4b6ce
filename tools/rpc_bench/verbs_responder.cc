#include "tools/rpc_bench/verbs_responder.h"

#include <algorithm>

#include "absl/types/span.h"

namespace verbena::bench {
namespace {

constexpr size_t kPollBatch = 32;

// The READs of a call, its WRITEs and the notice.
uint64_t RequestsOfCall(const VerbsHello& hello, uint64_t chunk_bytes) {
  const uint64_t chunks =
      std::max<uint64_t>(1, (hello.size_bytes + chunk_bytes - 1) / chunk_bytes);
  return 2 * chunks + 1;
}

uint32_t SlotsOf(const VerbsHello& hello) {
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      return ReceiveDepth(hello) + SendDepth(hello);
    case VerbsPlan::kSendStream:
      return ReceiveDepth(hello);
    case VerbsPlan::kBulkEcho:
    case VerbsPlan::kMemoryStream:
      break;
  }
  return hello.outstanding;
}

bool HasBytes(const VerbsHello& hello) {
  return hello.plan == VerbsPlan::kSmallEcho ||
         hello.plan == VerbsPlan::kSendStream;
}

}  // namespace

VerbsEnd::Options VerbsResponder::EndOptions(const VerbsHello& hello,
                                             uint64_t chunk_bytes) {
  VerbsEnd::Options options;
  options.inline_bytes = hello.inline_bytes;
  options.events = hello.events != 0;
  options.receive_depth = ReceiveDepth(hello);
  options.send_depth = SendDepth(hello);
  if (hello.plan == VerbsPlan::kBulkEcho) {
    // Requests that are complete may wait for a later one to say so.
    options.send_depth = static_cast<uint32_t>(
        2 * hello.outstanding * RequestsOfCall(hello, chunk_bytes) + 16);
  }
  options.memory_bytes = StrideOf(hello) * SlotsOf(hello);
  options.remote_access = hello.plan == VerbsPlan::kMemoryStream;
  return options;
}

VerbsResponder::VerbsResponder(VerbsEnd& end, const VerbsHello& hello,
                               uint64_t chunk_bytes)
    : end_(end),
      hello_(hello),
      chunk_bytes_(chunk_bytes),
      stride_(StrideOf(hello)),
      batch_(hello.plan == VerbsPlan::kSendStream
                 ? std::max(1u, ReceiveDepth(hello) / 4)
                 : ReceiveBatch(hello)),
      unposted_(ReceiveDepth(hello)),
      leaving_(SlotsOf(hello)),
      reading_(hello.outstanding),
      last_request_(SlotsOf(hello)),
      completions_(kPollBatch) {
  const uint32_t slots = std::max(SlotsOf(hello), ReceiveDepth(hello));
  for (uint32_t i = slots; i-- > 0;) free_.push_back(static_cast<int>(i));
  PostReceives();
}

void VerbsResponder::PostReceives() {
  for (; unposted_ > 0 && !free_.empty(); --unposted_) {
    const int slot = free_.back();
    free_.pop_back();
    end_.QueueReceive(slot, stride_ * slot,
                      static_cast<uint32_t>(HasBytes(hello_) ? stride_ : 0));
  }
  end_.FlushReceives();
}

int VerbsResponder::Poll() {
  const int count = end_.Poll(absl::MakeSpan(completions_));
  for (int i = 0; i < count; ++i) {
    if (completions_[i].opcode == IBV_WC_RECV) {
      OnReceive(completions_[i]);
    } else if (completions_[i].opcode == IBV_WC_RDMA_READ) {
      OnReadComplete();
    }
  }
  if (count == 0) return 0;
  end_.FlushSends();
  while (!leaving_.empty() &&
         last_request_[leaving_.front()] <= end_.completed()) {
    free_.push_back(leaving_.Pop());
  }
  if (unposted_ < batch_) return count;
  const uint32_t posted = unposted_;
  PostReceives();
  if (hello_.plan == VerbsPlan::kSendStream && end_.send_room() > 0) {
    // Posted before the client may use them.
    end_.Queue({.opcode = IBV_WR_SEND_WITH_IMM, .immediate = posted});
    end_.FlushSends();
  }
  return count;
}

void VerbsResponder::OnReceive(const ibv_wc& completion) {
  ++unposted_;
  if (hello_.plan == VerbsPlan::kSmallEcho) return Echo(completion);
  free_.push_back(static_cast<int>(completion.wr_id));
  if (hello_.plan == VerbsPlan::kBulkEcho) Fetch(completion.imm_data);
}

void VerbsResponder::Echo(const ibv_wc& completion) {
  const int slot = static_cast<int>(completion.wr_id);
  if (end_.send_room() == 0) {
    // A correct client has fewer messages under way.
    free_.push_back(slot);
    return;
  }
  end_.Queue({.opcode = IBV_WR_SEND,
              .offset = stride_ * slot,
              .length = completion.byte_len});
  if (completion.byte_len <= end_.inline_bytes()) {
    // Posting it copies it, and that is before the receive is posted.
    free_.push_back(slot);
  } else {
    last_request_[slot] = end_.queued();
    leaving_.Push(slot);
  }
}

void VerbsResponder::Fetch(uint32_t slot) {
  // Only of a client that breaks the plan is there anything to refuse.
  if (slot >= hello_.outstanding || reading_.size() >= hello_.outstanding ||
      end_.send_room() < RequestsOfCall(hello_, chunk_bytes_)) {
    return;
  }
  reading_.Push(static_cast<int>(slot));
  Move(slot, IBV_WR_RDMA_READ, slot);
}

void VerbsResponder::OnReadComplete() {
  if (reading_.empty()) return;
  const auto slot = static_cast<uint32_t>(reading_.Pop());
  Move(slot, IBV_WR_RDMA_WRITE, hello_.outstanding + slot);
  end_.Queue({.opcode = IBV_WR_SEND_WITH_IMM, .immediate = slot});
}

void VerbsResponder::Move(uint32_t slot, ibv_wr_opcode opcode,
                          uint64_t remote_slot) {
  uint64_t done = 0;
  do {
    const uint64_t length = std::min(chunk_bytes_, hello_.size_bytes - done);
    const bool last = done + length == hello_.size_bytes;
    end_.Queue({.opcode = opcode,
                .offset = stride_ * slot + done,
                .length = static_cast<uint32_t>(length),
                .remote_address = hello_.address + stride_ * remote_slot + done,
                .rkey = hello_.rkey,
                .signalled = last && opcode == IBV_WR_RDMA_READ});
    done += length;
  } while (done < hello_.size_bytes);
}

}  // namespace verbena::bench
