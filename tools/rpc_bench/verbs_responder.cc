#include "tools/rpc_bench/verbs_responder.h"

#include <algorithm>

#include "absl/types/span.h"

namespace verbena::bench {
namespace {

// The READs of a call, its WRITEs and the notice.
uint64_t RequestsOfCall(const VerbsHello& hello, uint64_t chunk_bytes) {
  const uint64_t chunks =
      std::max<uint64_t>(1, (hello.size_bytes + chunk_bytes - 1) / chunk_bytes);
  return 2 * chunks + 1;
}

uint32_t SlotsOf(const VerbsHello& hello) {
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      return hello.ReceiveDepth() + hello.SendDepth();
    case VerbsPlan::kSendStream:
      return hello.ReceiveDepth();
    case VerbsPlan::kBulkEcho:
    case VerbsPlan::kMemoryStream:
      break;
  }
  return hello.outstanding;
}

}  // namespace

VerbsEnd::Options VerbsResponder::EndOptions(const VerbsHello& hello,
                                             uint64_t chunk_bytes) {
  const bool bulk = hello.plan == VerbsPlan::kBulkEcho;
  // Requests that are complete may wait for a later one to say so.
  const uint64_t bulk_depth =
      2 * hello.outstanding * RequestsOfCall(hello, chunk_bytes) + 16;
  return {.send_depth =
              bulk ? static_cast<uint32_t>(bulk_depth) : hello.SendDepth(),
          .receive_depth = hello.ReceiveDepth(),
          .memory_bytes = hello.Stride() * SlotsOf(hello),
          .remote_access = hello.plan == VerbsPlan::kMemoryStream,
          .events = hello.events != 0};
}

VerbsResponder::VerbsResponder(VerbsEnd& end, const VerbsHello& hello,
                               uint64_t chunk_bytes)
    : end_(end),
      hello_(hello),
      chunk_bytes_(chunk_bytes),
      stride_(hello.Stride()),
      batch_(hello.plan == VerbsPlan::kSendStream
                 ? std::max(1u, hello.ReceiveDepth() / 4)
                 : hello.ReceiveBatch()),
      unposted_(hello.ReceiveDepth()) {
  const uint32_t slots = std::max(SlotsOf(hello), hello.ReceiveDepth());
  for (uint32_t i = slots; i-- > 0;) free_.push_back(i);
  PostReceives();
}

void VerbsResponder::PostReceives() {
  const bool bytes = hello_.plan == VerbsPlan::kSmallEcho ||
                     hello_.plan == VerbsPlan::kSendStream;
  for (; unposted_ > 0 && !free_.empty(); --unposted_) {
    end_.QueueReceive(free_.back(), stride_ * free_.back(),
                      static_cast<uint32_t>(bytes ? stride_ : 0));
    free_.pop_back();
  }
  end_.FlushReceives();
}

bool VerbsResponder::Poll() {
  const absl::Span<const ibv_wc> completions = end_.Poll();
  for (const ibv_wc& completion : completions) {
    if (completion.opcode == IBV_WC_RECV) {
      OnReceive(completion);
    } else if (completion.opcode == IBV_WC_RDMA_READ) {
      OnReadComplete();
    }
  }
  if (completions.empty()) return false;
  end_.FlushSends();
  while (!leaving_.empty() && leaving_.front().second <= end_.completed()) {
    free_.push_back(leaving_.front().first);
    leaving_.pop_front();
  }
  if (unposted_ < batch_) return true;
  const uint32_t posted = unposted_;
  PostReceives();
  if (hello_.plan == VerbsPlan::kSendStream && end_.send_room() > 0) {
    // Posted before the client may use them.
    end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = posted;
    end_.FlushSends();
  }
  return true;
}

void VerbsResponder::OnReceive(const ibv_wc& completion) {
  ++unposted_;
  if (hello_.plan == VerbsPlan::kSmallEcho) return Echo(completion);
  free_.push_back(static_cast<uint32_t>(completion.wr_id));
  if (hello_.plan == VerbsPlan::kBulkEcho) Fetch(completion.imm_data);
}

void VerbsResponder::Echo(const ibv_wc& completion) {
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  // A correct client has fewer messages under way than there is room for.
  const bool room = end_.send_room() > 0;
  if (room) end_.Queue(IBV_WR_SEND, stride_ * slot, completion.byte_len);
  if (!room || completion.byte_len <= end_.inline_bytes()) {
    // Posting it copies it, and that is before the receive is posted.
    free_.push_back(slot);
  } else {
    leaving_.emplace_back(slot, end_.queued());
  }
}

void VerbsResponder::Fetch(uint32_t slot) {
  // Only of a client that breaks the plan is there anything to refuse.
  if (slot >= hello_.outstanding || reading_.size() >= hello_.outstanding ||
      end_.send_room() < RequestsOfCall(hello_, chunk_bytes_)) {
    return;
  }
  reading_.push_back(slot);
  Move(slot, IBV_WR_RDMA_READ, slot);
}

void VerbsResponder::OnReadComplete() {
  if (reading_.empty()) return;
  const uint32_t slot = reading_.front();
  reading_.pop_front();
  Move(slot, IBV_WR_RDMA_WRITE, hello_.outstanding + slot);
  end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = slot;
}

void VerbsResponder::Move(uint32_t slot, ibv_wr_opcode opcode,
                          uint64_t remote_slot) {
  uint64_t done = 0;
  do {
    const uint64_t length = std::min(chunk_bytes_, hello_.size_bytes - done);
    ibv_send_wr& request = end_.Queue(opcode, stride_ * slot + done,
                                      static_cast<uint32_t>(length));
    request.wr.rdma = {hello_.address + stride_ * remote_slot + done,
                       hello_.rkey};
    done += length;
    if (done == hello_.size_bytes && opcode == IBV_WR_RDMA_READ) {
      request.send_flags |= IBV_SEND_SIGNALED;
    }
  } while (done < hello_.size_bytes);
}

}  // namespace verbena::bench
