// The greeting of two sides, before they speak iWARP.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/soft/remote/relay.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

// Manually connected sides say their state in so many bytes.
constexpr size_t kStateBytes = sizeof(uint64_t);

MpaFrame ToMpa(const CmMessage& message) {
  const bool request = message.type == CmMessageType::kConnectRequest;
  MpaFrame frame;
  frame.kind = request ? MpaKind::kRequest : MpaKind::kReply;
  frame.reject = message.type == CmMessageType::kReject;
  frame.inbound_reads = message.responder_resources;
  frame.outbound_reads = message.initiator_depth;
  frame.user_bytes = request        ? kRequestDataBytes
                     : frame.reject ? kRejectDataBytes
                                    : kReplyDataBytes;
  std::memcpy(frame.user.data(), message.private_data.data(), frame.user_bytes);
  frame.trailer = MpaTrailer{.qp_num = message.qp_num,
                             .own_queue_pair = message.own_queue_pair,
                             .reject_reason = message.reject_reason,
                             .retry_count = message.retry_count,
                             .rnr_retry_count = message.rnr_retry_count,
                             .version = kCmVersion};
  return frame;
}

// A peer of another kind says nothing of what MPA has no place for.
CmMessage FromMpa(const MpaFrame& frame) {
  CmMessage message;
  message.type = frame.kind == MpaKind::kRequest
                     ? CmMessageType::kConnectRequest
                 : frame.reject ? CmMessageType::kReject
                                : CmMessageType::kConnectReply;
  message.reject_reason = frame.reject ? kConsumerReject : 0;
  constexpr uint8_t kRetriesMax = 7;
  message.retry_count = message.rnr_retry_count = kRetriesMax;
  // Revision 1 does not speak of READs.
  message.responder_resources = message.initiator_depth = kReadsMax;
  if (frame.enhanced) {
    message.responder_resources =
        static_cast<uint8_t>(std::min<int>(frame.inbound_reads, kReadsMax));
    message.initiator_depth =
        static_cast<uint8_t>(std::min<int>(frame.outbound_reads, kReadsMax));
  }
  std::memcpy(message.private_data.data(), frame.user.data(),
              std::min<size_t>(frame.user_bytes, message.private_data.size()));
  if (const auto& trailer = frame.trailer; trailer.has_value()) {
    message.qp_num = trailer->qp_num;
    message.own_queue_pair = trailer->own_queue_pair;
    message.reject_reason = trailer->reject_reason;
    message.retry_count = trailer->retry_count;
    message.rnr_retry_count = trailer->rnr_retry_count;
  }
  return message;
}

}  // namespace

// Says and hears what can be. Returns whether anything moved.
bool Relay::Greet() {
  if (stream_ != nullptr || !tcp_.valid() || connecting_ || tcp_ended_ ||
      finishing_ || garbage_ != nullptr) {
    return false;
  }
  SayGreeting();
  bool moved = SendGreeting();
  moved |= !heard_ && HearGreeting();
  if (ended_ || garbage_ != nullptr) return false;
  if (said_ && heard_ && saying_.empty() && !rejected_) {
    StartStream();
    return true;
  }
  return moved;
}

// Says our part as soon as it is known: the connection manager's message, or
// that the queue pair is ready.
void Relay::SayGreeting() {
  if (said_) return;
  if (!manual_) {
    if (message_.has_value()) SayMpa(*std::exchange(message_, std::nullopt));
    return;
  }
  const LinkNews news = OwnNews();
  if (news.state == kLinkNotReady) return;
  const uint64_t word = news.word();
  const auto* const bytes = reinterpret_cast<const std::byte*>(&word);
  saying_.insert(saying_.end(), bytes, bytes + kStateBytes);
  news_told_ = news;
  said_ = true;
}

void Relay::SayMpa(const CmMessage& message) {
  const bool request = message.type == CmMessageType::kConnectRequest;
  const bool reply = message.type == CmMessageType::kConnectReply ||
                     message.type == CmMessageType::kReject;
  if (active_ ? !request : !(reply && heard_)) {
    garbage_ = "the connection manager has said what does not come first";
    return;
  }
  std::array<std::byte, kMpaFrameBytesMax> bytes;
  MpaFrame frame = ToMpa(message);
  if (!active_ && !terms_.extended) {
    // Only a device of our kind understands the trailer of a reply.
    frame.trailer.reset();
    MpaFrame heard;
    ParseMpa(hearing_, MpaKind::kRequest, heard);
    FitToRequest(heard, frame);
  }
  const size_t length = EncodeMpa(frame, bytes.data());
  saying_.insert(saying_.end(), bytes.begin(), bytes.begin() + length);
  said_ = true;
  rejected_ = frame.reject;
}

bool Relay::SendGreeting() {
  if (saying_.empty()) return false;
  const ssize_t sent = ::send(tcp_.get(), saying_.data(), saying_.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    // HearGreeting() finds the end.
    if (errno != EAGAIN && errno != EINTR) saying_.clear();
    return false;
  }
  saying_.erase(saying_.begin(), saying_.begin() + sent);
  return true;
}

// Reads no more than the greeting, because the stream behind it is read by
// others.
bool Relay::HearGreeting() {
  MpaFrame frame;
  const MpaKind kind = active_ ? MpaKind::kReply : MpaKind::kRequest;
  bool moved = false;
  for (;;) {
    size_t needed = kStateBytes;
    if (manual_) {
      if (hearing_.size() == kStateBytes) {
        OnState();
        return true;
      }
    } else {
      const MpaResult result = ParseMpa(hearing_, kind, frame);
      needed = result.needed;
      if (result.parsed == MpaParsed::kFrame) {
        OnMpa(frame);
        return true;
      }
      if (result.parsed != MpaParsed::kIncomplete) {
        garbage_ = result.error;
        return false;
      }
    }
    const size_t before = hearing_.size();
    hearing_.resize(needed);
    const ssize_t got = ::recv(tcp_.get(), hearing_.data() + before,
                               needed - before, MSG_DONTWAIT);
    hearing_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) {
      if (got == 0 || (errno != EAGAIN && errno != EINTR)) tcp_ended_ = true;
      return moved;
    }
    moved = true;
  }
}

void Relay::OnState() {
  uint64_t word;
  std::memcpy(&word, hearing_.data(), sizeof(word));
  heard_ = true;
  terms_.extended = true;
  if (!TakeState(word)) garbage_ = "a queue pair in a state that there is not";
}

void Relay::OnMpa(const MpaFrame& frame) {
  heard_ = true;
  terms_.extended = frame.trailer.has_value();
  if (terms_.extended && frame.trailer->version != kCmVersion) {
    garbage_ = "another version of the software device";
    return;
  }
  CmMessage message = FromMpa(frame);
  base::UniqueFd memory_fd;
  if (!active_ && !MakeMemory(message, memory_fd)) {
    End();
    return;
  }
  PassUp(message, memory_fd.get());
  // The peer has said all that it has to say.
  if (frame.reject && !ended_) End();
}

// Adds to the request, the first message at the passive side, what only this
// host knows: the memory of the link, which is made here, and the address that
// was dialled, which is the one that the connection came to.
bool Relay::MakeMemory(CmMessage& request, base::UniqueFd& memory_fd) {
  const base::SocketAddress local = TcpLocalAddress(tcp_.get());
  absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
  if (local.empty() || !memory.ok()) return false;
  request.SetDestination(local);
  memory_fd = memory->TakeDescriptor();
  link_.Attach(*std::move(memory), side_, socket_.get());
  return true;
}

// The socket has room: messages are few, and the connection manager reads them
// at once, unless it has closed its end just now.
void Relay::PassUp(const CmMessage& message, int memory_fd) {
  if (socket_ended_) return;
  const int error = SendCmMessage(socket_.get(), message, memory_fd);
  if (error != 0 && error != EPIPE) {
    garbage_ = "the connection manager does not read";
  }
}

// Peers of another kind are ready when the reply is there, and say nothing of
// it.
void Relay::StartStream() {
  stream_ = std::make_unique<IwarpStream>(link_, terms_);
  saying_ = hearing_ = {};
  awaits_ready_ = !manual_ && !active_ && terms_.extended;
  if (!terms_.extended) {
    // siw, for one, ends a stream in which tagged messages are mixed.
    link_.AskForWhole();
    link_.SetState(kLinkOpen);
    if (!active_) PassUp({.type = CmMessageType::kReadyToUse});
  }
  // The queue pair may drive the link from now on.
  link_.RingAlways();
}

}  // namespace verbena::soft
