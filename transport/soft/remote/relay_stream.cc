// The work of a relay once both sides speak iWARP.

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/soft/remote/relay.h"

namespace verbena::soft {
namespace {

// Messages read from the socket in one turn, so that others have theirs.
constexpr int kReadBatch = 64;

// The pause while there is no room for the descriptor of a message.
constexpr std::chrono::milliseconds kSocketPause(20);

}  // namespace

// Reads what the queue pair and the connection manager of this process say:
// doorbells, messages, or the end. A doorbell has done its work by waking the
// relay. No more is read while a message waits to be sent.
void Relay::ReadSocket() {
  for (int i = 0; i < kReadBatch; ++i) {
    if (socket_ended_ || socket_paused_ || message_.has_value()) return;
    CmReceived received = ReceiveCmMessage(socket_.get());
    switch (received.kind) {
      case CmReceived::Kind::kNothing:
        return;
      case CmReceived::Kind::kDoorbell:
        break;
      case CmReceived::Kind::kMessage:
        OnMessage(received);
        break;
      case CmReceived::Kind::kLater:
        socket_paused_ = true;
        engine_.StartTimer(kSocketPause, Later(&Relay::ResumeSocket));
        return;
      case CmReceived::Kind::kGarbage:
      case CmReceived::Kind::kEnd:
        OnSocketEnded();
        break;
    }
  }
}

void Relay::ResumeSocket() {
  socket_paused_ = false;
  Pump();
}

void Relay::OnMessage(CmReceived& received) {
  if (received.fd.valid() && !link_.attached()) {
    absl::StatusOr<LinkMemory> memory = LinkMemory::Map(received.fd.get());
    if (memory.ok()) {
      link_.Attach(*std::move(memory), side_, socket_.get());
      // Closing a memory file does not wait.
      received.fd.Release().Reset();
    }
  }
  message_ = received.message;
}

LinkNews Relay::OwnNews() const {
  if (!link_.attached()) return LinkNews();
  return LinkNews{link_.peer_state(), link_.peer_path()};
}

// Tells another of this device what no packet says. A message that finds no
// room now is said later.
void Relay::SayNews() {
  if (!terms_.extended) {
    // iWARP has no such message: Finish() closes the stream.
    if (message_.has_value() && message_->type == CmMessageType::kReadyToUse) {
      message_.reset();
    }
    return;
  }
  const LinkNews news = OwnNews();
  if (news != news_told_ && news.state != kLinkNotReady &&
      stream_->Say(
          {.kind = StreamMessage::Kind::kState, .words = {news.word(), 0}})) {
    news_told_ = news;
  }
  if (!message_.has_value()) return;
  StreamMessage said = {.kind = StreamMessage::Kind::kCm};
  std::memcpy(said.cm.data(), &*message_, sizeof(*message_));
  if (!stream_->Say(said)) return;
  disconnects_ |= message_->type == CmMessageType::kDisconnect;
  message_.reset();
}

// The side that was called sends no FPDU before the caller has (RFC 5044,
// section 7.1): until then the caller may not know that the reply has ended. A
// caller of this kind knows, because it reads no more than the reply.
bool Relay::SendStream() {
  if (stream_ == nullptr || ended_ || tcp_ended_ || finishing_ ||
      garbage_ != nullptr) {
    return false;
  }
  if (!terms_.extended && !active_ && !stream_->heard()) return false;
  SayNews();
  const bool moved = stream_->Send(tcp_.get());
  NoteStream();
  return moved;
}

// Packets for a queue pair that has left are dropped by the stream; once that
// is gone too, bytes are.
bool Relay::ReceiveStream() {
  if (ended_ || garbage_ != nullptr) return false;
  if (finishing_) return DropInput();
  if (stream_ == nullptr) return false;
  const bool moved = stream_->Receive(tcp_.get());
  StreamMessage said;
  while (garbage_ == nullptr && stream_->TakeMessage(said)) {
    const bool legal = said.kind == StreamMessage::Kind::kState
                           ? TakeState(said.words[0])
                           : TakeCmMessage(said);
    if (!legal) garbage_ = "a message that no correct peer sends now";
  }
  NoteStream();
  return moved;
}

bool Relay::DropInput() {
  std::array<std::byte, 4096> bytes;
  const ssize_t got =
      ::recv(tcp_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) return true;
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) tcp_ended_ = true;
  return false;
}

void Relay::NoteStream() {
  if (stream_->broken()) garbage_ = stream_->error().data();
  if (stream_->ended() && !stream_->no_room()) tcp_ended_ = true;
  input_blocked_.store(stream_->no_room() || stream_->ended(),
                       std::memory_order_relaxed);
  output_blocked_.store(stream_->has_unsent(), std::memory_order_relaxed);
  owes_peer_.store(stream_->owes_acknowledgement(), std::memory_order_relaxed);
}

// A correct peer says nothing twice, and nothing more once it has closed.
bool Relay::TakeState(uint64_t word) {
  const auto state = static_cast<uint32_t>(word);
  if (state == kLinkNotReady || state > kLinkStalled ||
      peer_news_.state == kLinkClosed || word == peer_news_.word()) {
    return false;
  }
  const LinkNews before = peer_news_;
  peer_news_ = LinkNews{static_cast<LinkState>(state),
                        static_cast<uint32_t>(word >> 32)};
  // The path goes before the state, whose release shows both to a queue pair
  // that sees the state.
  link_.SetPath(peer_news_.path);
  link_.SetState(peer_news_.state);
  // A queue pair that does not wait for packets wants to know this too.
  if (before.state != kLinkNotReady) link_.RingAlways();
  return true;
}

// The request and the reply have come by the greeting.
bool Relay::TakeCmMessage(const StreamMessage& said) {
  CmMessage message;
  std::memcpy(&message, said.cm.data(), sizeof(message));
  if (manual_ || (message.type != CmMessageType::kReadyToUse &&
                  message.type != CmMessageType::kReject &&
                  message.type != CmMessageType::kDisconnect)) {
    return false;
  }
  awaits_ready_ = false;
  PassUp(message);
  return true;
}

}  // namespace verbena::soft
