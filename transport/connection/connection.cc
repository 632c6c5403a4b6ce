#include "transport/connection/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/verbs/error.h"
#include "transport/verbs/work_completion.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// A BYE that is not acknowledged in this time will never be.
constexpr absl::Duration kByeTimeout = absl::Milliseconds(500);

// Credits that were not used for so long serve somebody else better.
constexpr absl::Duration kCreditsIdle = absl::Seconds(1);

// A device that does not flush in this time is broken: destroying the queue
// pair ends its access to memory all the same.
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

// 0.64 ms, the nearest the specification has to what a receive needs to be
// posted again. RDMA CM leaves 0, which means 655 ms.
constexpr uint8_t kMinRnrTimer = 12;

}  // namespace

Connection::Connection(Poller& poller, PollerDevice& device, CmId id,
                       uint32_t inline_bytes, const EndpointOptions& options,
                       int access)
    : poller_(poller),
      device_(device),
      options_(options),
      access_(access),
      send_(device.send_slots(), device.send_batches(), device.shared_sends()),
      id_(std::move(id)),
      peer_(id_.PeerAddress().ToString()),
      last_heard_(absl::Now()) {
  send_.Attach(id_.qp(), inline_bytes);
  device_.AddHandler(id_.qp()->qp_num, this);
}

Connection::~Connection() { CHECK(!has_queue_pair_); }

void Connection::DestroyQueuePair() {
  device_.RemoveHandler(id_.qp()->qp_num);
  id_.DestroyQp();
  device_.ShrinkReceives(receive_credits_.window() - kIdleCredits);
  device_.Release();
  has_queue_pair_ = false;
}

PeerLimits Connection::OwnLimits(const EndpointOptions& options) {
  PeerLimits limits;
  limits.slot_bytes = kSlotBytes;
  limits.credits = kIdleCredits;
  limits.max_open_calls = kMaxOpenCalls;
  limits.max_receive_message_bytes =
      static_cast<uint32_t>(options.max_receive_message_bytes);
  return limits;
}

void Connection::SetPeerLimits(const PeerLimits& limits) {
  peer_limits_ = limits;
  send_credits_.emplace(limits.credits, kCredits);
}

absl::Status Connection::FixQueuePair() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.min_rnr_timer = kMinRnrTimer;
  // RDMA CM lets the peer write to our memory. A server lets nobody.
  attributes.qp_access_flags = static_cast<unsigned int>(access_);
  const int error = device_.provider().verbs.modify_qp(
      id_.qp(), &attributes,
      IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return ErrnoStatus("modify_qp", peer_, error);
  return absl::OkStatus();
}

void Connection::Transition(ConnectionState state) {
  CHECK(IsLegalTransition(state_, state))
      << ConnectionStateName(state_) << " to " << ConnectionStateName(state);
  state_ = state;
}

void Connection::SendGoAway() {
  if (state_ != ConnectionState::kOpen) return;
  goaway_due_ = going_away_ = true;
  PumpControl();
}

void Connection::OnEstablished() { last_heard_ = absl::Now(); }

void Connection::OnDisconnected(const absl::Status& reason) {
  BeginClose(reason, /*tell_peer=*/false);
}

void Connection::Close(const absl::Status& reason) {
  BeginClose(reason, /*tell_peer=*/false);
}

void Connection::ProtocolError(absl::string_view what) {
  BeginClose(absl::InternalError(absl::StrCat(
                 "the connection with ", peer_,
                 " was closed because the peer broke the protocol: ", what)),
             /*tell_peer=*/true);
}

void Connection::BeginClose(const absl::Status& reason, bool tell_peer) {
  if (state_ > ConnectionState::kOpen) return;
  CHECK(!reason.ok());
  failure_ = reason;
  if (tell_peer && SendControl(FrameType::kBye, reason.message())) {
    Transition(ConnectionState::kSayingBye);
    close_deadline_ = absl::Now() + kByeTimeout;
  } else {
    Disconnect();
  }
  OnClosing();
}

void Connection::Disconnect() {
  Transition(ConnectionState::kDraining);
  // Puts the queue pair into the error state too. Fails when it never was
  // connected or the peer was faster; the transition below covers that.
  id_.Disconnect().IgnoreError();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  device_.provider().verbs.modify_qp(id_.qp(), &attributes, IBV_QP_STATE);
  const bool marked = send_.PostDrainMarker().ok();
  // Without its completion there is nothing to wait for.
  close_deadline_ = absl::Now();
  if (marked) close_deadline_ += kDrainTimeout;
}

void Connection::CheckDrained() {
  if (state_ == ConnectionState::kSayingBye &&
      (send_.idle() || absl::Now() >= close_deadline_)) {
    Disconnect();
  }
  if (state_ == ConnectionState::kDraining && !InUse() &&
      (send_.idle() || absl::Now() >= close_deadline_)) {
    Transition(ConnectionState::kClosed);
  }
}

void Connection::OnSendError(ibv_wc_status status) {
  // After the first error everything else is flushed; the first one counts.
  BeginClose(absl::UnavailableError(
                 absl::StrCat("the connection with ", peer_,
                              " failed: ", WorkCompletionText(status))),
             /*tell_peer=*/false);
}

void Connection::OnSendSlot() { poller_.AtRoundEnd(this); }

void Connection::OnReceiveError(ibv_wc_status status) {
  BeginClose(absl::UnavailableError(
                 absl::StrCat("the connection with ", peer_,
                              " failed: ", WorkCompletionText(status))),
             /*tell_peer=*/false);
}

void Connection::OnTick(absl::Time now) {
  if (state_ <= ConnectionState::kOpen) {
    KeepAlive(now);
    TickMore(now);
    BalanceCredits(now);
    PumpControl();
    FlushNow();
  }
  CheckDrained();
}

absl::Time Connection::NextTick() const {
  if (state_ == ConnectionState::kClosed) return absl::InfiniteFuture();
  if (state_ > ConnectionState::kOpen) {
    // What it is still used for ends with something posted to the poller.
    return InUse() && send_.idle() ? absl::InfiniteFuture() : close_deadline_;
  }
  absl::Time deadline = NextDeadline();
  if (HoldsIdleCredits()) {
    deadline = std::min(deadline, credits_idle_since_ + kCreditsIdle);
  }
  if (!ExpectsTraffic()) return deadline;
  if (ping_sent_.has_value()) {
    return std::min(deadline, *ping_sent_ + options_.keepalive_timeout);
  }
  return std::min(deadline, last_heard_ + options_.keepalive_time);
}

void Connection::KeepAlive(absl::Time now) {
  if (std::exchange(heard_, false)) {
    last_heard_ = now;
    ping_sent_.reset();
  }
  if (state_ != ConnectionState::kOpen || !ExpectsTraffic()) return;
  if (!ping_sent_.has_value()) {
    if (now - last_heard_ >= options_.keepalive_time) {
      ping_sent_ = now;
      ping_due_ = true;
    }
  } else if (now - *ping_sent_ >= options_.keepalive_timeout) {
    BeginClose(absl::UnavailableError(
                   absl::StrCat("the peer ", peer_, " has been silent for ",
                                absl::FormatDuration(now - last_heard_),
                                " and did not answer a PING")),
               /*tell_peer=*/false);
  }
}

void Connection::HandleControl(FrameType type,
                               absl::Span<const uint8_t> frame) {
  switch (type) {
    case FrameType::kPing:
      pong_due_ = true;
      return;
    case FrameType::kGoAway:
      OnGoAway();
      return;
    case FrameType::kBye: {
      const absl::string_view reason(
          reinterpret_cast<const char*>(frame.data()) + sizeof(FrameHeader),
          frame.size() - sizeof(FrameHeader));
      BeginClose(absl::InternalError(absl::StrCat(
                     "the peer ", peer_, " closed the connection: ", reason)),
                 /*tell_peer=*/false);
      return;
    }
    case FrameType::kReturn:
      if (!HandleReturn(frame)) {
        ProtocolError("it gave back credits that it did not have");
      }
      return;
    default:  // kPong says all it has to say in the header.
      return;
  }
}

bool Connection::HasCredit() const {
  return send_credits_.has_value() && send_credits_->available() > 0 &&
         send_.HasFramePlace();
}

bool Connection::SendControl(FrameType type, absl::string_view body) {
  if (!HasCredit()) return false;
  body = body.substr(0, SendRoom() - sizeof(FrameHeader));
  FrameHeader header = PlainHeader(type, 0);
  header.body_bytes = static_cast<uint32_t>(body.size());
  uint8_t* const out =
      BeginAnyFrame(static_cast<uint32_t>(sizeof(header) + body.size()));
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(out + sizeof(header), body.data(), body.size());
  }
  Send(static_cast<uint32_t>(sizeof(header) + body.size()),
       /*signalled=*/true);
  return true;
}

bool Connection::HoldsIdleCredits() const {
  return state_ == ConnectionState::kOpen &&
         (send_credits_->available() > kIdleCredits ||
          receive_credits_.window() >
              std::max(receive_credits_.outstanding(), kIdleCredits));
}

void Connection::BalanceCredits(absl::Time now) {
  if (state_ != ConnectionState::kOpen) return;
  const uint32_t frames = send_credits_->sent() + receive_credits_.received();
  if (frames != std::exchange(frames_seen_, frames)) credits_idle_since_ = now;
  if (now - credits_idle_since_ < kCreditsIdle || !HoldsIdleCredits()) return;
  credits_idle_since_ = now;
  device_.ShrinkReceives(receive_credits_.ShrinkToOutstanding(kIdleCredits));
  const uint32_t available = send_credits_->available();
  if (available <= kIdleCredits || !HasCredit()) return;
  uint8_t* const out = BeginAnyFrame(sizeof(ReturnHeader));
  if (out == nullptr) return;
  ReturnHeader header = {};
  header.frame = PlainHeader(FrameType::kReturn, 0);
  header.frame.header_bytes = sizeof(header);
  // The frame itself takes the last one; the peer owes that one again.
  header.credits = available - 1;
  std::memcpy(out, &header, sizeof(header));
  send_credits_->GiveBack(header.credits);
  Send(sizeof(header), /*signalled=*/true);
}

bool Connection::HandleReturn(absl::Span<const uint8_t> frame) {
  const ReturnHeader header = LoadHeader<ReturnHeader>(frame);
  if (!receive_credits_.Return(header.credits)) return false;
  device_.ShrinkReceives(header.credits);
  return true;
}

void Connection::GrowWindow() {
  const uint32_t window = receive_credits_.window();
  receive_credits_.Grow(
      device_.GrowReceives(std::min(window, kCredits - window)));
}

FrameHeader Connection::PlainHeader(FrameType type, uint32_t call_id) {
  FrameHeader header = {};
  header.type = type;
  header.header_bytes = sizeof(FrameHeader);
  header.call_id = call_id;
  return header;
}

}  // namespace verbena::transport
