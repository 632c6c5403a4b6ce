#include "transport/verbs/test_queue_pair.h"

#include <cstring>

#include "transport/base/check.h"

namespace verbena::transport {

void TestQueuePair::Fill(size_t offset, absl::string_view text) {
  std::memcpy(memory + offset, text.data(), text.size());
}

std::string TestQueuePair::Text(size_t offset, size_t length) const {
  return std::string(reinterpret_cast<const char*>(memory + offset), length);
}

uint64_t& TestQueuePair::Word(size_t offset) {
  return *reinterpret_cast<uint64_t*>(memory + offset);
}

uint64_t TestQueuePair::Address(size_t offset) const {
  return reinterpret_cast<uint64_t>(memory + offset);
}

ibv_sge TestQueuePair::Entry(size_t offset, size_t length) const {
  return {Address(offset), static_cast<uint32_t>(length), mr->lkey};
}

// A queue pair with a shared queue has no receives of its own.
int TestQueuePair::PostReceive(ibv_recv_wr request) {
  ibv_recv_wr* bad = nullptr;
  return srq != nullptr ? ibv_post_srq_recv(srq, &request, &bad)
                        : ibv_post_recv(qp, &request, &bad);
}

int TestQueuePair::Receive(uint64_t wr_id, size_t offset, size_t length) {
  ibv_sge entry = Entry(offset, length);
  ibv_recv_wr request = {};
  request.wr_id = wr_id;
  request.sg_list = &entry;
  request.num_sge = 1;
  return PostReceive(request);
}

// Posts a single request, so `bad` can only name that one.
int TestQueuePair::Post(ibv_send_wr request) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, &request, &bad);
  // A device that refuses before it looks at a request may name no request.
  CHECK(bad == nullptr || (error != 0 && bad == &request))
      << "bad_wr does not fit the result";
  return error;
}

int TestQueuePair::PostOver(size_t offset, size_t length, ibv_send_wr request) {
  ibv_sge entry = Entry(offset, length);
  request.sg_list = &entry;
  request.num_sge = 1;
  return Post(request);
}

int TestQueuePair::Send(uint64_t wr_id, size_t offset, size_t length,
                        unsigned int flags) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags;
  return PostOver(offset, length, request);
}

int TestQueuePair::PostRdma(ibv_wr_opcode opcode, uint64_t wr_id, ibv_sge entry,
                            uint64_t remote, uint32_t rkey,
                            unsigned int flags) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = flags;
  request.wr.rdma = {remote, rkey};
  return Post(request);
}

int TestQueuePair::Write(uint64_t wr_id, size_t offset, size_t length,
                         uint64_t remote, uint32_t rkey, unsigned int flags) {
  return PostRdma(IBV_WR_RDMA_WRITE, wr_id, Entry(offset, length), remote, rkey,
                  flags);
}

int TestQueuePair::Read(uint64_t wr_id, size_t offset, size_t length,
                        uint64_t remote, uint32_t rkey, unsigned int flags) {
  return PostRdma(IBV_WR_RDMA_READ, wr_id, Entry(offset, length), remote, rkey,
                  flags);
}

int TestQueuePair::SendInvalidate(uint64_t wr_id, size_t offset, size_t length,
                                  uint32_t rkey) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = rkey;
  return PostOver(offset, length, request);
}

int TestQueuePair::Invalidate(uint64_t wr_id, uint32_t rkey) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  // Has no element: a local invalidate names a key only.
  request.opcode = IBV_WR_LOCAL_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = rkey;
  return Post(request);
}

int TestQueuePair::CompareSwap(uint64_t wr_id, size_t offset, uint64_t remote,
                               uint32_t rkey, uint64_t compare, uint64_t swap) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic = {remote, compare, swap, rkey};
  return PostOver(offset, sizeof(uint64_t), request);
}

int TestQueuePair::FetchAdd(uint64_t wr_id, size_t offset, uint64_t remote,
                            uint32_t rkey, uint64_t add, unsigned int flags) {
  ibv_send_wr request = {};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = flags;
  request.wr.atomic = {remote, add, 0, rkey};
  return PostOver(offset, sizeof(uint64_t), request);
}

int TestQueuePair::SendDatagram(const Datagram& datagram) {
  ibv_send_wr request = {};
  request.wr_id = datagram.wr_id;
  request.opcode = IBV_WR_SEND;
  request.send_flags = datagram.flags;
  // Each datagram names its receiver, because an unreliable queue pair has no
  // peer.
  request.wr.ud = {datagram.ah, datagram.number, datagram.qkey};
  return PostOver(datagram.offset, datagram.length, request);
}

bool TestQueuePair::PollOnce(ibv_wc& completion) {
  const int count = ibv_poll_cq(cq, 1, &completion);
  CHECK(count >= 0) << "poll_cq: " << count;
  return count == 1;
}

void TestQueuePair::RunProtocol() {
  // Asking for no completions leaves them in the queue, but makes a software
  // device work.
  ibv_wc none;
  CHECK_EQ(ibv_poll_cq(cq, 0, &none), 0);
}

}  // namespace verbena::transport
