// The way of bytes from the link to the other host.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/remote/relay.h"

namespace verbena::soft {
namespace {

// Messages read from the socket in one turn, so that others have theirs.
constexpr int kReadBatch = 64;

// Room for the frames that may follow the packets of a batch.
constexpr size_t kNewsBytes = 3 * sizeof(TcpFrame) + sizeof(CmMessage);

}  // namespace

// Reads what the queue pair and the connection manager of this process say:
// doorbells, messages, or the end. A doorbell has done its work by waking the
// relay. No more is read while a message waits to be sent.
void Relay::ReadSocket() {
  for (int i = 0; i < kReadBatch && !socket_ended_ && !message_; ++i) {
    CmReceived received = ReceiveCmMessage(socket_.get());
    switch (received.kind) {
      case CmReceived::Kind::kNothing:
        return;
      case CmReceived::Kind::kDoorbell:
        break;
      case CmReceived::Kind::kMessage:
        if (received.fd.valid() && !link_.attached()) {
          absl::StatusOr<LinkMemory> memory =
              LinkMemory::Map(received.fd.get());
          if (memory.ok()) {
            link_.Attach(*std::move(memory), side_, socket_.get());
            // Closing a memory file does not wait.
            received.fd.Release().Reset();
          }
        }
        message_ = received.message;
        break;
      case CmReceived::Kind::kLater:
      case CmReceived::Kind::kGarbage:
      case CmReceived::Kind::kEnd:
        OnSocketEnded();
        break;
    }
  }
}

// Whether SendBatch() would send something. Only for a link that is driven.
bool Relay::HasNews() {
  if (!link_.attached()) return false;  // Its queue pair is about to leave.
  if (!unsent_.empty() || link_.has_incoming() || message_.has_value()) {
    return true;
  }
  if (!NoteOwnProgress()) return false;
  return executed_ != executed_told_ || OwnNews() != news_told_;
}

bool Relay::SendRest() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(tcp_.get(), unsent_.data(), unsent_.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // The connection is broken. It is left to Receive() to find its end: what
      // the peer sent before can still be read.
      if (errno != EAGAIN) unsent_.clear();
      return false;
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  output_blocked_.store(false, std::memory_order_relaxed);
  return true;
}

// Sends one batch: the preamble if it was not sent yet, packets, and the news
// that belong behind them. What the socket does not take waits in unsent_.
bool Relay::SendBatch() {
  if (ended_ || garbage_ || connecting_ || !tcp_.valid() || tcp_ended_ ||
      finishing_ || !SendRest()) {
    return false;
  }
  std::byte* const bytes = buffer_.data();
  size_t length = 0;
  if (active_ && !preamble_sent_) {
    preamble_sent_ = true;
    std::memcpy(bytes, &preamble_, sizeof(preamble_));
    length = sizeof(preamble_);
  }
  // Read before the packets: those that the queue pair sent before this news
  // are in the ring already, and so go before it.
  const LinkNews news = OwnNews();
  if (!NoteOwnProgress()) return false;
  const size_t room = kTcpBatchBytes - kNewsBytes - length;
  // If the link was made manually, the peer's queue pair may not be there yet.
  // Packets wait until it has said that it is, because the relay could not send
  // them again: see OnTcpLost().
  if (link_.attached() && (!manual() || peer_news_.state != kLinkNotReady)) {
    length += AppendPackets(bytes + length, room);
  }
  const bool drained = length + kTcpFrameBytesMax <= room;
  length += AppendNews(bytes + length, news, drained);
  if (garbage_ || length == 0) return false;
  unsent_.clear();
  size_t done = 0;
  while (done < length) {
    const ssize_t sent = ::send(tcp_.get(), bytes + done, length - done,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<size_t>(sent);
    } else if (errno != EINTR) {
      if (errno != EAGAIN) done = length;  // As in SendRest().
      break;
    }
  }
  unsent_.assign(bytes + done, bytes + length);
  output_blocked_.store(!unsent_.empty(), std::memory_order_relaxed);
  if (link_.attached()) link_.TellProgress();
  return true;
}

// Notes how many requests the queue pair of this process has executed. False,
// and the relay is to end, when the ring holds nonsense: the queue pair would
// not write it, but others may share the memory file.
bool Relay::NoteOwnProgress() {
  if (!link_.attached()) return true;
  uint32_t executed = 0;
  if (!link_.ReadPeerProgress(executed)) {
    garbage_ = true;
    return false;
  }
  if (static_cast<int32_t>(executed - executed_) > 0) executed_ = executed;
  return true;
}

// Copies whole packets as long as one of any length has room, and makes room in
// the ring at once.
size_t Relay::AppendPackets(std::byte* to, size_t room) {
  size_t length = 0;
  Packet packet;
  while (length + kTcpFrameBytesMax <= room) {
    const LinkEnd::Incoming incoming = link_.Peek(packet);
    if (incoming == LinkEnd::Incoming::kNothing) break;
    if (incoming == LinkEnd::Incoming::kBroken) {
      garbage_ = true;
      break;
    }
    // A packet may carry a later number than the word that NoteOwnProgress()
    // has read.
    if (static_cast<int32_t>(packet.executed - executed_) > 0) {
      executed_ = packet.executed;
    }
    TcpFrame frame;
    frame.kind = TcpFrameKind::kPacket;
    frame.length = packet.payload_bytes;
    frame.mark = uint64_t{packet.number} << 32 | uint64_t{packet.flags} << 8 |
                 static_cast<uint64_t>(packet.kind);
    frame.address = packet.address;
    frame.key_and_value = uint64_t{packet.rkey} << 32 | packet.value;
    length += AppendFrame(to + length, frame, packet.payload);
    link_.Consume(packet);
  }
  return length;
}

LinkNews Relay::OwnNews() const {
  if (!link_.attached()) return LinkNews();
  return LinkNews{link_.peer_state(), link_.peer_path()};
}

// Appends the frames that belong behind the packets. A change of state and a
// message must not overtake packets, so they wait until the ring is drained.
size_t Relay::AppendNews(std::byte* to, const LinkNews& news, bool drained) {
  size_t length = 0;
  if (drained && news != news_told_ && news.state != kLinkNotReady) {
    TcpFrame frame;
    frame.kind = TcpFrameKind::kState;
    frame.mark = news.word();
    news_told_ = news;
    length += AppendFrame(to + length, frame, nullptr);
  }
  if (drained && message_.has_value()) {
    TcpFrame frame;
    frame.kind = TcpFrameKind::kCmMessage;
    frame.length = sizeof(CmMessage);
    length += AppendFrame(to + length, frame, &*message_);
    message_.reset();
  }
  // No other frame of this batch has carried the number.
  if (executed_ != executed_told_) {
    length += AppendFrame(to + length, TcpFrame{}, nullptr);
  }
  return length;
}

size_t Relay::AppendFrame(std::byte* to, TcpFrame frame, const void* payload) {
  frame.position = sent_frames_++;
  frame.executed = executed_;
  executed_told_ = executed_;
  std::memcpy(to, &frame, sizeof(frame));
  if (frame.length != 0) {
    std::memcpy(to + sizeof(frame), payload, frame.length);
  }
  return sizeof(frame) + frame.length;
}

}  // namespace verbena::soft
