// The way of bytes from the other host to the link.

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {

// Reads from the socket once, and takes all frames that have come whole. The
// rest waits in unparsed_.
bool Relay::ReceiveBatch() {
  if (ended_ || garbage_) return false;
  // After the end only frames that wait for room are left to be taken.
  if (connecting_ || !tcp_.valid() || (tcp_ended_ && !no_room_)) return false;
  // Learns how much room the queue pair has made in the ring.
  if (!NoteOwnProgress()) return false;
  std::byte* const bytes = buffer_.data();
  size_t length = unparsed_.size();
  if (length != 0) std::memcpy(bytes, unparsed_.data(), length);
  bool moved = false;
  // While a frame waits for room nothing more is read: that is how the other
  // host is held back.
  if (!no_room_) {
    const ssize_t got = ::recv(tcp_.get(), bytes + length,
                               kTcpBatchBytes - length, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      tcp_ended_ = true;
      input_blocked_.store(true, std::memory_order_relaxed);
      return false;
    }
    length += static_cast<size_t>(got);
    moved = true;
  }
  size_t at = 0;
  Parsed result = Parsed::kIncomplete;
  while (at < length) {
    size_t used = 0;
    result = ParseFrame(bytes + at, length - at, used);
    if (result != Parsed::kFrame) break;
    at += used;
    moved = true;
  }
  if (result == Parsed::kGarbage) {
    garbage_ = true;
    return false;
  }
  no_room_ = result == Parsed::kNoRoom;
  input_blocked_.store(no_room_ || tcp_ended_, std::memory_order_relaxed);
  unparsed_.assign(bytes + at, bytes + length);
  if (link_.attached()) link_.TellProgress();
  return moved;
}

// Counts a frame only if it was taken: one that finds no room is parsed again.
Relay::Parsed Relay::ParseFrame(const std::byte* bytes, size_t length,
                                size_t& used) {
  TcpFrame frame;
  if (length < sizeof(frame)) return Parsed::kIncomplete;
  std::memcpy(&frame, bytes, sizeof(frame));
  if (!frame.IsLegal() || frame.position != received_frames_) {
    return Parsed::kGarbage;
  }
  used = sizeof(frame) + frame.length;
  if (length < used) return Parsed::kIncomplete;
  const Parsed result =
      socket_ended_ ? Parsed::kFrame  // Dropped: nobody is left to have it.
                    : TakeFrame(frame, bytes + sizeof(frame));
  if (result == Parsed::kFrame) ++received_frames_;
  return result;
}

Relay::Parsed Relay::TakeFrame(const TcpFrame& frame,
                               const std::byte* payload) {
  // The number is not checked here: a queue pair refuses one that cannot be.
  if (link_.attached()) link_.set_executed(frame.executed);
  switch (frame.kind) {
    case TcpFrameKind::kPacket:
      return TakePacket(frame, payload);
    case TcpFrameKind::kExecuted:
      return link_.attached() ? Parsed::kFrame : Parsed::kGarbage;
    case TcpFrameKind::kState:
      return TakeState(frame);
    case TcpFrameKind::kCmMessage:
      return TakeCmMessage(payload);
  }
  return Parsed::kGarbage;
}

// Puts the packet into the ring, as the peer's own queue pair would have done.
Relay::Parsed Relay::TakePacket(const TcpFrame& frame,
                                const std::byte* payload) {
  // In a PacketHeader the payload's length stands between number and flags. The
  // frame has a field of its own for it.
  if (!link_.attached() || (frame.mark & 0xffff0000) != 0) {
    return Parsed::kGarbage;
  }
  // The queue pair has left and would never make room for the packet. It is
  // dropped, so that the frames behind it are still read.
  if (link_.peer_state() == kLinkClosed) return Parsed::kFrame;
  std::byte* const to = link_.Reserve(frame.length);
  if (to == nullptr) return Parsed::kNoRoom;
  CopyBytes(to, payload, frame.length);
  Packet packet;
  packet.kind = static_cast<PacketKind>(frame.mark & 0xff);
  packet.flags = static_cast<uint8_t>(frame.mark >> 8);
  packet.number = static_cast<uint32_t>(frame.mark >> 32);
  packet.payload_bytes = frame.length;
  packet.address = frame.address;
  packet.rkey = static_cast<uint32_t>(frame.key_and_value >> 32);
  packet.value = static_cast<uint32_t>(frame.key_and_value);
  link_.Publish(packet);
  return Parsed::kFrame;
}

Relay::Parsed Relay::TakeState(const TcpFrame& frame) {
  // A correct peer says nothing twice, and nothing more once it has closed.
  const uint32_t state = static_cast<uint32_t>(frame.mark);
  if (!link_.attached() || state == kLinkNotReady || state > kLinkStalled ||
      peer_news_.state == kLinkClosed || frame.mark == peer_news_.word()) {
    return Parsed::kGarbage;
  }
  const LinkNews before = peer_news_;
  peer_news_ = LinkNews{static_cast<LinkState>(state),
                        static_cast<uint32_t>(frame.mark >> 32)};
  // The path goes before the state, whose release shows both to a queue pair
  // that sees the state.
  link_.SetPath(peer_news_.path);
  link_.SetState(peer_news_.state);
  // A queue pair that does not wait for packets wants to know this too. One
  // that was connected manually may drive the link from now on.
  if (manual() || before.state != kLinkNotReady) link_.RingAlways();
  return Parsed::kFrame;
}

Relay::Parsed Relay::TakeCmMessage(const std::byte* payload) {
  CmMessage message;
  std::memcpy(&message, payload, sizeof(message));
  if (manual()) return Parsed::kGarbage;
  base::UniqueFd memory_fd;  // Goes with the request.
  if (!link_.attached()) {
    if (active_ || message.type != CmMessageType::kConnectRequest ||
        !CompleteRequest(message, memory_fd)) {
      return Parsed::kGarbage;
    }
  } else if (message.type == CmMessageType::kConnectRequest ||
             message.type == CmMessageType::kRemoteConnection) {
    return Parsed::kGarbage;
  }
  // The socket has room: messages are few, and the connection manager reads
  // them at once, unless it has closed its end just now.
  const int error = SendCmMessage(socket_.get(), message, memory_fd.get());
  return error == 0 || error == EPIPE ? Parsed::kFrame : Parsed::kGarbage;
}

// A host whose first bytes are no frame is no software device: some other
// program has the port there. The connection manager of this process is told
// so.
void Relay::OnGarbage() {
  if (active_ && !manual() && received_frames_ == 0 && !socket_ended_) {
    SendCmMessage(socket_.get(), {.type = CmMessageType::kReject,
                                  .reject_reason = kForeignPort});
  }
  End();
}

// Adds to the request, the first message at the passive side, what only this
// host knows: the memory of the link, which is made here, and the address that
// was dialled, which is the one that the connection came to.
bool Relay::CompleteRequest(CmMessage& request, base::UniqueFd& memory_fd) {
  base::SocketAddress local = TcpLocalAddress(tcp_.get());
  absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
  if (local.empty() || !memory.ok()) return false;
  local.set_port(preamble_.destination_port);
  request.SetDestination(local);
  memory_fd = memory->TakeDescriptor();
  link_.Attach(*std::move(memory), side_, socket_.get());
  return true;
}

}  // namespace verbena::soft
