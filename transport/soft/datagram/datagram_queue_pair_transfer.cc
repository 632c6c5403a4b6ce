// Sending and receiving.

#include <cerrno>
#include <chrono>
#include <cstring>

#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram_device.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/datagram/global_route.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/memory/scatter_gather.h"

namespace verbena::soft {
namespace {

// Datagrams taken in one pass, so that others have their turn.
constexpr int kReceivesPerPass = 16;

// How long a sender waits for a receiver that has no room. Longer than a busy
// machine takes to run the receiver's thread; shorter than anybody's timeout.
constexpr std::chrono::milliseconds kReceiverPatience(100);

}  // namespace

int DatagramQueuePair::PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  const base::MutexLock lock(lock_);
  return Post(wr, bad_wr);
}

int DatagramQueuePair::PostAll(ibv_send_wr* chain) {
  const base::MutexLock lock(lock_);
  if (const int error = sends_.CheckAll(chain); error != 0) return error;
  ibv_send_wr* bad_wr;
  return Post(chain, &bad_wr);
}

int DatagramQueuePair::Post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_INIT ||
      state_ == IBV_QPS_RTR) {
    *bad_wr = wr;
    return EINVAL;
  }
  const int error = sends_.Post(wr, bad_wr);
  // In both states requests are taken only to be flushed.
  if (state_ == IBV_QPS_ERR || state_ == IBV_QPS_SQE) sends_.Flush();
  Transmit();
  EnterErrorIfQueueFailed();
  // If nobody polls, the engine tries again.
  if (!sends_.empty()) device_.engine().Kick(this);
  return error;
}

int DatagramQueuePair::PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const base::MutexLock lock(lock_);
  if (state_ == IBV_QPS_RESET || srq != nullptr) {
    *bad_wr = wr;
    return EINVAL;
  }
  const int error = receives_.own().Post(wr, bad_wr);
  if (state_ == IBV_QPS_ERR) FlushReceives();
  return error;
}

// Sends the requests in their order. A request that waits for its receiver
// holds up those behind it.
void DatagramQueuePair::Transmit() {
  while (state_ == IBV_QPS_RTS && !sends_.empty()) {
    switch (SendOldest()) {
      case Sending::kDone:
        waiting_since_ = TimePoint::max();
        sends_.End(IBV_WC_SUCCESS);
        break;
      case Sending::kWait:
        return;
      case Sending::kBadMemory:
        StopSending(IBV_WC_LOC_PROT_ERR);
        return;
      case Sending::kBadOpcode:
        StopSending(IBV_WC_LOC_QP_OP_ERR);
        return;
    }
  }
}

void DatagramQueuePair::StopSending(ibv_wc_status status) {
  sends_.End(status);
  sends_.Flush();
  SetState(IBV_QPS_SQE);  // Receiving goes on.
}

// Sends one request, within the host or to another one. A datagram that cannot
// get there is lost without a word: only bad memory and a bad opcode are errors
// of the sender.
DatagramQueuePair::Sending DatagramQueuePair::SendOldest() {
  if (!sends_.legal()) return Sending::kBadOpcode;
  // The specification wants neither a packet nor an error (C10-93.1.1).
  if (sends_.length() > kDatagramPayloadMax) return Sending::kDone;
  if (!device_.port_states().IsActive(attributes_.port_num)) {
    return Sending::kDone;  // The port is down: the datagram is lost.
  }
  DatagramSendQueue::Parts parts;
  if (!sends_.Gather(attributes_.qkey, parts)) return Sending::kBadMemory;
  const DatagramRoute& route = sends_.route();
  const uint32_t number = sends_.destination_qp();
  const int error = route.local()
                        ? SendToQueuePair(socket_.get(), number,
                                          parts.parts.data(), parts.count)
                        : DatagramDevice::Get().network.Send(
                              route, parts.parts.data(), parts.count);
  switch (error) {
    case EAGAIN:
      return WaitForReceiver();
    // The kernel has found a page of memory on demand missing.
    case EFAULT:
      return Sending::kBadMemory;
    case 0:
      if (number == slow_receiver_) slow_receiver_ = 0;
      return Sending::kDone;
    default:
      return Sending::kDone;  // No receiver, or no route: the datagram is lost.
  }
}

// Called when the receiver has no room. Waits for it once, for
// kReceiverPatience; after that, datagrams to it are lost until one gets
// through. So a receiver that does not read holds up the others only once.
DatagramQueuePair::Sending DatagramQueuePair::WaitForReceiver() {
  const uint32_t number = sends_.destination_qp();
  if (number == slow_receiver_) return Sending::kDone;  // The datagram is lost.
  const TimePoint now = device_.engine().clock().Now();
  if (waiting_since_ == TimePoint::max()) waiting_since_ = now;
  if (now - waiting_since_ < kReceiverPatience) return Sending::kWait;
  slow_receiver_ = number;
  return Sending::kDone;
}

void DatagramQueuePair::Receive() {
  for (int i = 0; i < kReceivesPerPass && MayReceive(); ++i) {
    const ssize_t length =
        ReceiveDatagram(socket_.get(), received_.data(), received_.size());
    if (length < 0) return;
    OnDatagram(static_cast<size_t>(length));
  }
}

// A datagram that is not as it should be is dropped without a word, as on
// hardware. children() is not 0 while the queue pair is attached to a group.
void DatagramQueuePair::OnDatagram(size_t length) {
  DatagramHeader header;
  if (!ReadDatagramHeader(received_.data(), length, header) ||
      header.qkey != attributes_.qkey ||
      (header.destination_qp != qp_num &&
       (header.destination_qp != kMulticastQueuePair || children() == 0)) ||
      !device_.port_states().IsActive(attributes_.port_num)) {
    return;
  }
  // Only a datagram that is to be delivered takes a receive.
  ReceiveRequest request;
  if (!receives_.Take(request)) return;
  const uint32_t payload_bytes =
      static_cast<uint32_t>(length - sizeof(DatagramHeader));
  const ibv_wc_status status = Place(request, header, payload_bytes);
  PushReceive(request, status, header, payload_bytes);
  if (status != IBV_WC_SUCCESS) EnterError();
}

// Puts the global route header in front of the message, as the buffer of every
// datagram has it.
ibv_wc_status DatagramQueuePair::Place(const ReceiveRequest& request,
                                       const DatagramHeader& header,
                                       uint32_t payload_bytes) {
  const ScatterGatherList list = {&device_.memory(), receives_.domain(),
                                  request.entries.data(), request.entry_count};
  if (kGlobalRouteBytes + payload_bytes > list.TotalBytes()) {
    return IBV_WC_LOC_LEN_ERR;
  }
  const GlobalRouteBytes route = WriteGlobalRoute(header, payload_bytes);
  const bool placed = list.Scatter(0, kGlobalRouteBytes, route.data()) &&
                      (payload_bytes == 0 ||
                       list.Scatter(kGlobalRouteBytes, payload_bytes,
                                    received_.data() + sizeof(DatagramHeader)));
  return placed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

void DatagramQueuePair::PushReceive(const ReceiveRequest& request,
                                    ibv_wc_status status,
                                    const DatagramHeader& header,
                                    uint32_t payload_bytes) {
  Completion completion = {};
  completion.wr_id = request.wr_id;
  completion.qp = this;
  completion.status = static_cast<uint8_t>(status);
  completion.opcode = IBV_WC_RECV;
  if (status == IBV_WC_SUCCESS) {
    completion.byte_len = kGlobalRouteBytes + payload_bytes;
    completion.flags = IBV_WC_GRH;
    if ((header.flags & kDatagramImmediate) != 0) {
      completion.flags |= IBV_WC_WITH_IMM;
      completion.immediate = header.immediate;
    }
    completion.SetSender(header.source_qp, header.service_level & 0xf);
    completion.solicited = (header.flags & kDatagramSolicited) != 0;
  }
  recv_cq_.Push(completion);
}

void DatagramQueuePair::FlushReceives() {
  ReceiveRequest request;
  while (receives_.own().Take(request)) {
    PushReceive(request, IBV_WC_WR_FLUSH_ERR, DatagramHeader(), 0);
  }
}

}  // namespace verbena::soft
