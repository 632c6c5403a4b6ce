#include <atomic>
#include <cstring>

#include "transport/soft/connected/responder.h"
#include "transport/soft/link/packet.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {
namespace {

// Executes the operation and returns the value that was there before. It is the
// processor that makes it atomic: so it is atomic among all queue pairs of all
// processes, and to their own threads.
uint64_t Execute(PacketKind kind, const AtomicOperands& operands,
                 uint64_t& at) {
  std::atomic_ref<uint64_t> target(at);
  if (kind == PacketKind::kFetchAdd) {
    return target.fetch_add(operands.compare_or_add);
  }
  uint64_t before = operands.compare_or_add;
  target.compare_exchange_strong(before, operands.swap);
  return before;
}

}  // namespace

// Executes the atomic at once, and keeps the old value as an answer that is
// sent when the ring has room. From then on the request counts as executed, so
// no repetition can execute it again.
bool Responder::OnAtomic(const Packet& packet) {
  if (!packet.last() || packet.payload_bytes != sizeof(AtomicOperands)) {
    return false;
  }
  if (reads_count_ >= reads_max_ || (access_ & IBV_ACCESS_REMOTE_ATOMIC) == 0) {
    Drop(packet, NakReason::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return true;
  }
  std::byte* const to =
      Find(packet.rkey, packet.address, kAtomicBytes, IBV_ACCESS_REMOTE_ATOMIC);
  if (to == nullptr) {
    Drop(packet, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return true;
  }
  // Both the address that the peer names and the place where it lies must be a
  // multiple of 8: a region may be named by addresses that differ from those of
  // its memory.
  if (((packet.address | reinterpret_cast<uintptr_t>(to)) &
       (kAtomicBytes - 1)) != 0) {
    Drop(packet, NakReason::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return true;
  }
  AtomicOperands operands;
  // The peer can change the ring at any time, so the operands are read once.
  std::memcpy(&operands, packet.payload, sizeof(operands));
  const uint64_t before =
      Execute(packet.kind, operands, *reinterpret_cast<uint64_t*>(to));
  Note({packet.number, 0, 0, kAtomicBytes, 0, before});
  return true;
}

}  // namespace verbena::soft
