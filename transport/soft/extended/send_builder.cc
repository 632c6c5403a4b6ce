#include "transport/soft/extended/send_builder.h"

#include <cerrno>
#include <memory>

namespace verbena::soft {
namespace {

QueuePairHandle& HandleOf(ibv_qp_ex* qp) {
  return *static_cast<QueuePairHandle*>(&qp->qp_base);
}
SendBuilder& BuilderOf(ibv_qp_ex* qp) {
  return static_cast<SendBuilder&>(*HandleOf(qp).extension);
}

void StartBatch(ibv_qp_ex* qp) { BuilderOf(qp).Start(); }
int CompleteBatch(ibv_qp_ex* qp) {
  return BuilderOf(qp).Complete(&qp->qp_base);
}
void AbortBatch(ibv_qp_ex* qp) { BuilderOf(qp).Abort(); }

// Operations.

void Send(ibv_qp_ex* qp) { BuilderOf(qp).Add(*qp, IBV_WR_SEND); }
void SendImmediate(ibv_qp_ex* qp, __be32 immediate) {
  BuilderOf(qp).Add(*qp, IBV_WR_SEND_WITH_IMM).imm_data = immediate;
}
void SendInvalidate(ibv_qp_ex* qp, uint32_t rkey) {
  BuilderOf(qp).Add(*qp, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
}
void LocalInvalidate(ibv_qp_ex* qp, uint32_t rkey) {
  BuilderOf(qp).Add(*qp, IBV_WR_LOCAL_INV).invalidate_rkey = rkey;
}

ibv_send_wr& AddRdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey,
                     uint64_t address) {
  ibv_send_wr& request = BuilderOf(qp).Add(*qp, opcode);
  request.wr.rdma = {address, rkey};
  return request;
}
void Write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  AddRdma(qp, IBV_WR_RDMA_WRITE, rkey, address);
}
void WriteImmediate(ibv_qp_ex* qp, uint32_t rkey, uint64_t address,
                    __be32 immediate) {
  AddRdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).imm_data = immediate;
}
void Read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  AddRdma(qp, IBV_WR_RDMA_READ, rkey, address);
}

void CompareAndSwap(ibv_qp_ex* qp, uint32_t rkey, uint64_t address,
                    uint64_t compare, uint64_t swap) {
  BuilderOf(qp).Add(*qp, IBV_WR_ATOMIC_CMP_AND_SWP).wr.atomic = {
      address, compare, swap, rkey};
}
void FetchAndAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t address,
                 uint64_t addend) {
  BuilderOf(qp).Add(*qp, IBV_WR_ATOMIC_FETCH_AND_ADD).wr.atomic = {
      address, addend, 0, rkey};
}

void BindWindow(ibv_qp_ex* qp, ibv_mw* window, uint32_t rkey,
                const ibv_mw_bind_info* info) {
  ibv_send_wr& request = BuilderOf(qp).Add(*qp, IBV_WR_BIND_MW);
  request.bind_mw.mw = window;
  request.bind_mw.rkey = rkey;
  request.bind_mw.bind_info = *info;
}

// The setters, for the operation that was begun last.

void SetDestination(ibv_qp_ex* qp, ibv_ah* handle, uint32_t number,
                    uint32_t key) {
  BuilderOf(qp).Last().wr.ud = {handle, number, key};
}
void SetEntry(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge entry = {address, length, lkey};
  BuilderOf(qp).SetEntries(&entry, 1);
}
void SetEntryList(ibv_qp_ex* qp, size_t count, const ibv_sge* entries) {
  BuilderOf(qp).SetEntries(entries, count);
}
void SetInlineBytes(ibv_qp_ex* qp, void* address, size_t length) {
  const ibv_data_buf buffer = {address, length};
  BuilderOf(qp).SetInline(&buffer, 1);
}
void SetInlineList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) {
  BuilderOf(qp).SetInline(buffers, count);
}

}  // namespace

// Fills in the functions of the operations that the user has asked for, and
// those that every operation needs.
void SendBuilder::Install(QueuePairHandle& handle, uint64_t operations,
                          uint32_t inline_bytes_max, PostAll post_all) {
  handle.extension = std::make_unique<SendBuilder>(inline_bytes_max, post_all);
  ibv_qp_ex& qp = *handle.extended();
  const auto has = [operations](uint64_t bit) {
    return (operations & bit) != 0;
  };
  if (has(IBV_QP_EX_WITH_SEND)) qp.wr_send = Send;
  if (has(IBV_QP_EX_WITH_SEND_WITH_IMM)) qp.wr_send_imm = SendImmediate;
  if (has(IBV_QP_EX_WITH_SEND_WITH_INV)) qp.wr_send_inv = SendInvalidate;
  if (has(IBV_QP_EX_WITH_RDMA_WRITE)) qp.wr_rdma_write = Write;
  if (has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)) {
    qp.wr_rdma_write_imm = WriteImmediate;
  }
  if (has(IBV_QP_EX_WITH_RDMA_READ)) qp.wr_rdma_read = Read;
  if (has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)) {
    qp.wr_atomic_cmp_swp = CompareAndSwap;
  }
  if (has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)) {
    qp.wr_atomic_fetch_add = FetchAndAdd;
  }
  if (has(IBV_QP_EX_WITH_LOCAL_INV)) qp.wr_local_inv = LocalInvalidate;
  if (has(IBV_QP_EX_WITH_BIND_MW)) qp.wr_bind_mw = BindWindow;
  if (qp.qp_base.qp_type == IBV_QPT_UD) qp.wr_set_ud_addr = SetDestination;
  qp.wr_set_sge = SetEntry;
  qp.wr_set_sge_list = SetEntryList;
  qp.wr_set_inline_data = SetInlineBytes;
  qp.wr_set_inline_data_list = SetInlineList;
  qp.wr_start = StartBatch;
  qp.wr_complete = CompleteBatch;
  qp.wr_abort = AbortBatch;
}

void SendBuilder::Start() {
  mutex_.lock();
  error_ = 0;
  requests_.clear();
  parts_.clear();
  entries_.clear();
  bytes_.clear();
}

void SendBuilder::Abort() { mutex_.unlock(); }

int SendBuilder::Complete(ibv_qp* qp) {
  int error = error_;
  // After an error nothing of the batch is posted.
  if (error == 0 && !requests_.empty()) {
    Link();
    error = post_all_(qp, requests_.data());
  }
  mutex_.unlock();
  if (error != 0) errno = error;
  return error;
}

ibv_send_wr& SendBuilder::Add(const ibv_qp_ex& qp, ibv_wr_opcode opcode) {
  mutex_.AssertHeld();
  ibv_send_wr& request = requests_.emplace_back();
  request.wr_id = qp.wr_id;
  // Whether data is inline is said by the setter that brings it.
  request.send_flags = qp.wr_flags & ~unsigned{IBV_SEND_INLINE};
  request.opcode = opcode;
  parts_.push_back({.first_entry = entries_.size()});
  return request;
}

ibv_send_wr& SendBuilder::Last() {
  mutex_.AssertHeld();
  if (!requests_.empty()) return requests_.back();
  Refuse(EINVAL);
  return nowhere_;
}

void SendBuilder::SetEntries(const ibv_sge* entries, size_t count) {
  mutex_.AssertHeld();
  if (requests_.empty() || requests_.back().num_sge != 0) {
    Refuse(EINVAL);  // A request has its data set once.
    return;
  }
  entries_.insert(entries_.end(), entries, entries + count);
  requests_.back().num_sge = static_cast<int>(count);
}

void SendBuilder::SetInline(const ibv_data_buf* buffers, size_t count) {
  mutex_.AssertHeld();
  const size_t first_byte = bytes_.size();
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i].length > inline_bytes_max_ ||
        bytes_.size() - first_byte + buffers[i].length > inline_bytes_max_) {
      Refuse(ENOMEM);  // Too long to be copied, as providers answer.
      return;
    }
    const auto* from = static_cast<const std::byte*>(buffers[i].addr);
    bytes_.insert(bytes_.end(), from, from + buffers[i].length);
  }
  // The vector may still move when it grows, so Link() fills the address in.
  const ibv_sge entry = {0, static_cast<uint32_t>(bytes_.size() - first_byte),
                         0};
  SetEntries(&entry, entry.length == 0 ? 0 : 1);
  if (requests_.empty()) return;
  requests_.back().send_flags |= IBV_SEND_INLINE;
  parts_.back().first_byte = first_byte;
  parts_.back().is_inline = true;
}

// Makes the requests a chain, and points them to their entries and inline data,
// which do not move any more.
void SendBuilder::Link() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    ibv_send_wr& request = requests_[i];
    const Parts& parts = parts_[i];
    request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
    request.sg_list = entries_.data() + parts.first_entry;
    if (parts.is_inline && request.num_sge != 0) {
      request.sg_list->addr =
          reinterpret_cast<uint64_t>(bytes_.data() + parts.first_byte);
    }
  }
}

}  // namespace verbena::soft
