#include "transport/soft/datagram/datagram_send_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/base/limits.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/datagram/address_handle.h"
#include "transport/soft/device/context.h"
#include "transport/soft/memory/on_demand_memory.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/queues/send_chain.h"

namespace verbena::soft {
namespace {

// A Q_Key of a request with this bit stands for that of the sending queue pair,
// as the InfiniBand specification has it.
constexpr uint32_t kOwnQkey = 1u << 31;

bool IsDatagram(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM;
}

}  // namespace

DatagramSendQueue::DatagramSendQueue(const Environment& environment,
                                     const ibv_qp_init_attr& attributes)
    : environment_(environment),
      flags_of_all_(attributes.sq_sig_all != 0 ? IBV_SEND_SIGNALED : 0),
      ring_(attributes) {}

int DatagramSendQueue::Post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  for (; wr != nullptr; wr = wr->next) {
    uint64_t length = 0;
    if (const int error = Check(*wr, length); error != 0) {
      *bad_wr = wr;
      return error;
    }
    Store(*wr, static_cast<uint32_t>(length));
  }
  return 0;
}

int DatagramSendQueue::CheckAll(const ibv_send_wr* chain) const {
  return CheckChain(chain, ring_.Room(posted_), [this](const ibv_send_wr& wr) {
    uint64_t length = 0;
    return Check(wr, length);
  });
}

int DatagramSendQueue::Check(const ibv_send_wr& wr, uint64_t& length) const {
  if (ring_.Room(posted_) == 0) {
    return ENOMEM;
  }
  // A NIC takes whatever it finds in its queue, and completes it: a handle of
  // another domain serves, a number has 24 bits, and an opcode that datagrams
  // do not have ends with an error.
  // Of such an opcode nothing else is looked at: it has no handle.
  if (!IsDatagram(wr)) return 0;
  if (wr.num_sge < 0 ||
      static_cast<uint32_t>(wr.num_sge) > ring_.entries_max() ||
      !IsLive(wr.wr.ud.ah) ||
      wr.wr.ud.ah->context != environment_.qp->context) {
    return EINVAL;
  }
  for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
  if (length > kMessageBytesMax) return EINVAL;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  return is_inline && length > ring_.inline_max() ? EINVAL : 0;
}

// Copies what the address handle says, because the handle may be destroyed
// before the datagram is sent.
void DatagramSendQueue::Store(const ibv_send_wr& wr, uint32_t length) {
  Slot& request = ring_.slot(posted_);
  request.wr_id = wr.wr_id;
  request.legal = IsDatagram(wr);
  if (!request.legal) {
    request.length = request.flags = 0;
    ++posted_;
    return;
  }
  const AddressHandle& ah = *AddressHandle::From(wr.wr.ud.ah);
  request.length = length;
  request.entry_count = static_cast<uint16_t>(wr.num_sge);
  request.flags = static_cast<uint8_t>(wr.send_flags) | flags_of_all_;
  request.route = ah.route();
  DatagramHeader& header = request.header;
  header = ah.header();
  header.destination_qp = wr.wr.ud.remote_qpn & kQueuePairNumberMax;
  header.source_qp = environment_.qp->qp_num;
  header.qkey = wr.wr.ud.remote_qkey;
  if (wr.opcode == IBV_WR_SEND_WITH_IMM) {
    header.flags |= kDatagramImmediate;
    header.immediate = wr.imm_data;
  }
  if ((wr.send_flags & IBV_SEND_SOLICITED) != 0) {
    header.flags |= kDatagramSolicited;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
    std::copy_n(wr.sg_list, wr.num_sge, ring_.entries(posted_));
  } else {
    CopyInline(wr, ring_.inline_data(posted_));
  }
  ++posted_;
}

// Names the header and the pieces of memory to the kernel, which copies them
// when it sends.
bool DatagramSendQueue::Gather(uint32_t own_qkey, Parts& parts) {
  const Slot& request = ring_.slot(ended_);
  DatagramHeader header = request.header;
  if ((header.qkey & kOwnQkey) != 0) header.qkey = own_qkey;
  parts.header = ToWire(header);
  parts.parts[0] = {&parts.header, sizeof(parts.header)};
  parts.count = 1;
  if ((request.flags & IBV_SEND_INLINE) != 0) {
    parts.parts[parts.count++] = {ring_.inline_data(ended_), request.length};
    return true;
  }
  for (int i = 0; i < request.entry_count; ++i) {
    const ibv_sge& entry = ring_.entries(ended_)[i];
    // An entry of no bytes needs no valid key.
    if (entry.length == 0) continue;
    std::byte* from = environment_.memory->Translate(
        entry.lkey, environment_.pd, entry.addr, entry.length, 0);
    // The kernel gathers the parts, so memory on demand will do: it says EFAULT
    // when a page is missing.
    if (from == nullptr) {
      from = environment_.memory->Translate(entry.lkey,
                                            OnDemandOwner(environment_.pd),
                                            entry.addr, entry.length, 0);
    }
    if (from == nullptr) return false;
    parts.parts[parts.count++] = {from, entry.length};
  }
  return true;
}

// A request that fails has a completion even if it is not signalled.
void DatagramSendQueue::End(ibv_wc_status status) {
  const Slot& request = ring_.slot(ended_++);
  if (status == IBV_WC_SUCCESS && (request.flags & IBV_SEND_SIGNALED) == 0) {
    return;
  }
  Completion completion = {};
  completion.wr_id = request.wr_id;
  completion.qp = environment_.qp;
  completion.byte_len = request.length;
  completion.sent_up_to = ended_;
  completion.status = static_cast<uint8_t>(status);
  completion.opcode = IBV_WC_SEND;
  environment_.cq->Push(completion);
}

void DatagramSendQueue::Flush() {
  while (!empty()) End(IBV_WC_WR_FLUSH_ERR);
}

void DatagramSendQueue::Reset() {
  ring_.Reset();
  ended_ = posted_ = 0;
}

}  // namespace verbena::soft
