#include "transport/session/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/verbs/error.h"
#include "transport/verbs/work_completion.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// A BYE that is not acknowledged in this time will never be.
constexpr absl::Duration kByeTimeout = absl::Milliseconds(500);

// A device that does not flush in this time is broken: destroying the queue
// pair ends its access to memory all the same.
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

// kDrainTimeout on iWARP, where a device may drop what is posted to a queue
// pair in the error state. siw does, and has flushed everything else by then.
constexpr absl::Duration kIwarpDrainTimeout = absl::Milliseconds(10);

// 0.64 ms, the nearest the specification has to what a receive needs to be
// posted again. RDMA CM leaves 0, which means 655 ms.
constexpr uint8_t kMinRnrTimer = 12;

}  // namespace

Connection::Connection(Poller& poller, PollerDevice& device,
                       MemoryDomain& memory, CmId id,
                       PollerDevice::QueuePair queue_pair,
                       const EndpointOptions& options, int access,
                       CallTable& calls)
    : DeviceConnection(memory, queue_pair.receives != nullptr
                                   ? *queue_pair.receives
                                   : memory.receives()),
      poller_(poller),
      device_(device),
      calls_(calls),
      counters_(poller.counters().Device(device.name())),
      send_(memory.send_buffers(), device.send_batches(),
            device.shared_sends()),
      id_(std::move(id)),
      keepalive_(options.keepalive_time, options.keepalive_timeout,
                 base::Now()),
      options_(options),
      access_(access),
      peer_(id_.PeerAddress().ToString()),
      own_receives_(std::move(queue_pair.receives)) {
  send_.Attach(id_.qp(), queue_pair.inline_bytes, device.limits().send_depth);
  device_.AddConnection(id_.qp()->qp_num, this);
  counters_.begun.Add();
  InState().Add();
}

Connection::~Connection() {
  CHECK(!has_queue_pair_);
  if (state_ != ConnectionState::kClosed) InState().Subtract();
}

void Connection::DestroyQueuePair() {
  device_.RemoveConnection(id_.qp()->qp_num);
  id_.DestroyQp();
  receives().Leave();
  device_.ShrinkReceives(receives(), credits_.window() - kIdleCredits);
  device_.Release(memory());
  has_queue_pair_ = false;
}

PeerLimits Connection::OwnLimits(const EndpointOptions& options) {
  PeerLimits limits;
  limits.buffer_bytes = kBufferBytes;
  limits.credits = kIdleCredits;
  limits.max_open_calls = static_cast<uint16_t>(options.max_open_calls);
  limits.max_receive_message_bytes =
      static_cast<uint32_t>(options.max_receive_message_bytes);
  limits.max_metadata_bytes = options.max_metadata_bytes;
  return limits;
}

void Connection::SetPeerLimits(const PeerLimits& limits) {
  peer_limits_ = limits;
  credits_.Begin(limits.credits);
}

absl::Status Connection::FixQueuePair() {
  // iWARP has no such timer, and READs arrive as remote writes there: what a
  // peer may reach is for the keys of memory alone to say. Nor does siw look
  // at bytes that come while a queue pair is being modified, until others do:
  // a HELLO would wait for ever.
  if (device_.limits().iwarp) return absl::OkStatus();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.min_rnr_timer = kMinRnrTimer;
  // RDMA CM lets the peer write to our memory. A server lets nobody.
  attributes.qp_access_flags = static_cast<unsigned int>(access_);
  const int error = device_.provider().verbs.modify_qp(
      id_.qp(), &attributes,
      IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return absl::OkStatus();
  // A peer that has disconnected meanwhile has put the queue pair into the
  // error state, from where no way leads to this one.
  ibv_qp_attr present = {};
  ibv_qp_init_attr unused = {};
  if (device_.provider().verbs.query_qp(id_.qp(), &present, IBV_QP_STATE,
                                        &unused) == 0 &&
      present.qp_state == IBV_QPS_ERR) {
    return absl::UnavailableError(
        absl::StrCat(peer_, " closed the connection as soon as it was made"));
  }
  return ErrnoStatus("modify_qp", peer_, error);
}

void Connection::Transition(ConnectionState state) {
  CHECK(IsLegalTransition(state_, state))
      << ConnectionStateName(state_) << " to " << ConnectionStateName(state);
  InState().Subtract();
  state_ = state;
  if (state != ConnectionState::kClosed) InState().Add();
  Touch();
  if (state == ConnectionState::kClosed) device_.NoteClosed();
}

void Connection::SendGoAway() {
  if (state_ > ConnectionState::kOpen) return;
  goaway_due_ = going_away_ = true;
  Touch();
  SendOwedControl();
}

void Connection::OnCmEvent(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      keepalive_.Restart(base::Now());
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      OnDisconnected(absl::UnavailableError(absl::StrCat(
          "the peer ", peer_, " closed the connection",
          state_ == ConnectionState::kConnecting
              ? " before it was open; is it full (ServerBuilder::SetPollers)?"
              : "")));
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      OnDisconnected(absl::UnavailableError(absl::StrCat(
          "the device of the connection with ", peer_, " was removed")));
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default: {
      const absl::Status status = CmEventStatus(event, peer_);
      if (!status.ok()) OnDisconnected(status);
    }
  }
}

void Connection::OnDisconnected(const absl::Status& reason) {
  // The connection manager may be faster than the completion queue.
  uint32_t polls_left = calls_.WantsTheRest() ? device_.PollsToEmpty() : 0;
  while (state_ <= ConnectionState::kOpen && polls_left > 0 &&
         device_.Poll() > 0) {
    --polls_left;
  }
  Close(reason);
}

void Connection::Close(const absl::Status& reason) {
  BeginClose(reason, /*tell_peer=*/false);
}

void Connection::Refuse(const absl::Status& reason) {
  BeginClose(reason, /*tell_peer=*/true);
}

PeerFacts Connection::Facts() const {
  uid_t user = 0;
  if (!device_.provider().peer_user(id_.get(), &user)) return {};
  return {.user = user};
}

void Connection::ProtocolError(absl::string_view what) {
  BeginClose(BrokenProtocol(what), /*tell_peer=*/true);
}

// A flood is stopped at once: a BYE would leave the queue pair open to it until
// that has arrived.
void Connection::FrameRefused(const char* error) {
  BeginClose(BrokenProtocol(error),
             /*tell_peer=*/!CreditFlow::IsFlood(error));
}

absl::Status Connection::BrokenProtocol(absl::string_view what) const {
  return absl::InternalError(
      absl::StrCat("the connection with ", peer_,
                   " was closed because the peer broke the protocol: ", what));
}

absl::Status Connection::ExpectSums() {
  constexpr uint32_t kLeast = kMinBufferBytes + sizeof(FrameSums);
  if (peer_limits_.buffer_bytes < kLeast) {
    return absl::FailedPreconditionError(absl::StrCat(
        "frames with checksums take slots of ", kLeast, " bytes, and those of ",
        peer_, " have ", peer_limits_.buffer_bytes));
  }
  expects_sums_ = true;
  return absl::OkStatus();
}

bool Connection::PrecedesSums(absl::Span<const uint8_t> frame) {
  if (FrameError(frame) != nullptr) return false;
  switch (HeaderIn<FrameHeader>(frame).type) {
    case FrameType::kCredentials:
    case FrameType::kGrant:
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kGoAway:
    case FrameType::kBye:
      return true;
    default:
      return false;
  }
}

void Connection::FrameDamaged(absl::Span<const uint8_t> frame, uint32_t stated,
                              uint32_t found) {
  const bool has_sums = frame.size() >= sizeof(FrameHeader) + sizeof(FrameSums);
  const char* const type =
      frame.size() < sizeof(FrameHeader)
          ? "nothing"
          : FrameTypeName(HeaderIn<FrameHeader>(frame).type);
  CloseDamaged(absl::StrCat("a frame of ", frame.size(), " bytes, ", type,
                            " by its header",
                            has_sums ? "" : ", too short for checksums"),
               stated, found);
}

void Connection::PartDamaged(absl::string_view part, uint64_t bytes,
                             uint32_t stated, uint32_t found) {
  CloseDamaged(absl::StrCat(part, ", ", bytes, " bytes beside its frame"),
               stated, found);
}

void Connection::CloseDamaged(absl::string_view what, uint32_t stated,
                              uint32_t found) {
  Refuse(absl::DataLossError(absl::StrCat(
      "the connection with ", peer_,
      " was closed because bytes were damaged on their way: ", what,
      ", has the CRC32C 0x", absl::Hex(found, absl::kZeroPad8),
      ", and was sent with 0x", absl::Hex(stated, absl::kZeroPad8))));
}

void Connection::BeginClose(const absl::Status& reason, bool tell_peer) {
  if (state_ > ConnectionState::kOpen) return;
  CHECK(!reason.ok());
  failure_ = reason;
  if (state_ == ConnectionState::kConnecting) counters_.failed_handshakes.Add();
  counters_.credit_waits.Add(credits_.TakeWaits());
  uint8_t flags = 0;
  if (absl::IsUnauthenticated(reason)) flags = kFlagUnauthenticated;
  if (absl::IsDataLoss(reason)) flags = kFlagDamaged;
  if (tell_peer && SendControl(FrameType::kBye, reason.message(), flags)) {
    // A device that refused to post it has closed the connection already.
    if (state_ > ConnectionState::kOpen) return;
    Transition(ConnectionState::kSayingBye);
    late_frames_left_ = credits_.FramesToCome();
    close_deadline_ = base::Now() + kByeTimeout;
  } else {
    Disconnect();
  }
  calls_.OnClosing();
}

// A peer that goes on beyond its credits takes receives that others share: it
// is not given the time to read the BYE.
void Connection::OnLateFrame() {
  if (state_ != ConnectionState::kSayingBye) return;
  if (late_frames_left_ > 0) {
    --late_frames_left_;
  } else {
    Disconnect();
  }
}

void Connection::Disconnect() {
  Transition(ConnectionState::kDraining);
  receives().Stop();
  // Puts the queue pair into the error state too. Fails when it never was
  // connected or the peer was faster; the transition below covers that.
  id_.Disconnect().IgnoreError();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  device_.provider().verbs.modify_qp(id_.qp(), &attributes, IBV_QP_STATE);
  const bool marked = send_.PostDrainMarker();
  // Without its completion there is nothing to wait for.
  close_deadline_ = base::Now();
  if (!marked) return;
  close_deadline_ +=
      device_.limits().iwarp ? kIwarpDrainTimeout : kDrainTimeout;
}

void Connection::CheckDrained() {
  if (state_ == ConnectionState::kSayingBye &&
      (send_.idle() || base::Now() >= close_deadline_)) {
    Disconnect();
  }
  if (state_ == ConnectionState::kDraining && !calls_.InUse() &&
      (flushed() || base::Now() >= close_deadline_)) {
    Transition(ConnectionState::kClosed);
  }
}

void Connection::OnReceiveError(ibv_wc_status status) {
  // Some devices complete every receive that is posted in the error state, so
  // reposting would never end.
  receives().Stop();
  if (state_ <= ConnectionState::kOpen) {
    if (status == IBV_WC_RETRY_EXC_ERR) counters_.retries_exceeded.Add();
    if (status == IBV_WC_RNR_RETRY_EXC_ERR) {
      counters_.rnr_retries_exceeded.Add();
    }
  }
  Close(absl::UnavailableError(absl::StrCat(
      "the connection with ", peer_, " failed: ", WorkCompletionText(status))));
}

void Connection::OnMisreport(absl::string_view what) {
  Close(absl::UnavailableError(
      absl::StrCat("the connection with ", peer_, " failed: the device ",
                   device_.name(), " reported ", what)));
}

void Connection::FailPostSlow(int error) {
  Close(ErrnoStatus("post_send", "", error));
}

void Connection::OnForeignReceive(ibv_wc_opcode opcode) {
  if (opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    return OnMisreport("that a receive was taken by no message");
  }
  ProtocolError("it took a receive with a WRITE");
}

void Connection::OnSendBuffer() { JoinRound(); }

void Connection::OnTick(absl::Time now) {
  counters_.credit_waits.Add(credits_.TakeWaits());
  if (state_ <= ConnectionState::kOpen) {
    KeepAlive(now);
    calls_.OnTick(now);
    BalanceCredits(now);
    // Nothing goes behind the marker of a connection that has just closed.
    if (state_ <= ConnectionState::kOpen) SendOwedControl();
    FlushNow();
  }
  if (state_ == ConnectionState::kDraining && !flushed() &&
      base::Now() >= close_deadline_) {
    // The next queue pair may have the number of this one: no completion of
    // this one may be left for it.
    device_.PollToEmpty();
  }
  CheckDrained();
}

absl::Time Connection::NextTick() const {
  if (state_ == ConnectionState::kClosed) return absl::InfiniteFuture();
  if (state_ > ConnectionState::kOpen) {
    // A call that is still in use ends by a task posted to the poller, which
    // needs no tick.
    return calls_.InUse() && flushed() ? absl::InfiniteFuture()
                                       : close_deadline_;
  }
  absl::Time deadline = calls_.NextTick();
  if (usable() && credits_.HoldsIdle()) {
    deadline = std::min(deadline, credits_idle_since_ + kCreditsIdle);
  }
  return calls_.silence() != Keepalive::Silence::kFine
             ? std::min(deadline, keepalive_.NextTick())
             : deadline;
}

void Connection::KeepAlive(absl::Time now) {
  switch (keepalive_.Tick(
      now, usable() ? calls_.silence() : Keepalive::Silence::kFine)) {
    case Keepalive::Verdict::kFine:
      return;
    case Keepalive::Verdict::kPingDue:
      ping_due_ = true;
      return;
    case Keepalive::Verdict::kDead:
      Close(absl::UnavailableError(
          absl::StrCat("the peer ", peer_, " has been silent for ",
                       absl::FormatDuration(keepalive_.SilentFor(now)),
                       " and did not answer a PING")));
  }
}

void Connection::HandleControl(FrameType type,
                               absl::Span<const uint8_t> frame) {
  switch (type) {
    case FrameType::kPing:
      pong_due_ = true;
      return;
    case FrameType::kGoAway:
      calls_.OnGoAway();
      return;
    case FrameType::kBye: {
      const std::string reason = absl::Utf8SafeCHexEscape(absl::string_view(
          reinterpret_cast<const char*>(frame.data()) + sizeof(FrameHeader),
          frame.size() - sizeof(FrameHeader)));
      const uint8_t flags = HeaderIn<FrameHeader>(frame).flags;
      if ((flags & kFlagUnauthenticated) != 0) {
        Close(absl::UnauthenticatedError(absl::StrCat(
            "the peer ", peer_, " refused the connection: ", reason)));
      } else if ((flags & kFlagDamaged) != 0) {
        Close(absl::DataLossError(
            absl::StrCat("the peer ", peer_, " says: ", reason)));
      } else {
        Close(absl::InternalError(absl::StrCat(
            "the peer ", peer_, " closed the connection: ", reason)));
      }
      return;
    }
    default: {
      CHECK(type == FrameType::kReturn);
      // A peer keeps one credit at least. DestroyQueuePair() counts on that
      // being the idle window, whose receives are given back by themselves.
      static_assert(kIdleCredits == 1);
      const uint32_t count = HeaderIn<ReturnHeader>(frame).credits;
      if (credits_.TakeReturn(count)) {
        device_.ShrinkReceives(receives(), count);
      } else {
        ProtocolError("it gave back credits that it did not have");
      }
    }
  }
}

bool Connection::SendControl(FrameType type, absl::string_view body,
                             uint8_t flags) {
  if (NeedsCredit(type, flags) && !credits_.has_credit()) return false;
  if (!send_.HasFrameRoom()) return false;
  body = body.substr(0, SendRoom() - sizeof(FrameHeader));
  FrameHeader header = PlainHeader(type, 0);
  header.flags = flags;
  header.body_bytes = static_cast<uint32_t>(body.size());
  const uint32_t bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  uint8_t* const out = BeginAnyFrame(bytes);
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(out + sizeof(header), body.data(), body.size());
  }
  SendFrame(bytes, /*signalled=*/true);
  return true;
}

}  // namespace verbena::transport
