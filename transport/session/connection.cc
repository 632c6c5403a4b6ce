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

// 0.64 ms, the nearest the specification has to what a receive needs to be
// posted again. RDMA CM leaves 0, which means 655 ms.
constexpr uint8_t kMinRnrTimer = 12;

// DATA_LOSS has BeginClose() mark the BYE as kFlagDamaged, which needs no
// credit: the last credits may have stood in the damaged frame.
absl::Status DamageStatus(absl::string_view peer, absl::string_view what,
                          uint32_t stated, uint32_t found) {
  return absl::DataLossError(absl::StrCat(
      "the connection with ", peer,
      " was closed because bytes were damaged on their way: ", what,
      ", has the CRC32C 0x", absl::Hex(found, absl::kZeroPad8),
      ", and was sent with 0x", absl::Hex(stated, absl::kZeroPad8)));
}

}  // namespace

Connection::Connection(Poller& poller, PollerDevice& device,
                       MemoryDomain& memory, CmId id,
                       PollerDevice::QueuePair queue_pair,
                       const EndpointOptions& options, int access,
                       CallTable& calls)
    : FrameSender(poller, device, memory,
                  queue_pair.receives != nullptr ? *queue_pair.receives
                                                 : memory.receives(),
                  poller.counters().Device(device.name()),
                  options.continued_bytes_max),
      calls_(calls),
      counters_(poller.counters().Device(device.name())),
      options_(options),
      id_(std::move(id)),
      peer_(id_.PeerAddress().ToString()),
      access_(access),
      own_receives_(std::move(queue_pair.receives)),
      keepalive_(options.keepalive_time, options.keepalive_timeout,
                 base::Now()),
      ending_(*this, id_, calls) {
  send_queue().Attach(id_.qp(), queue_pair.inline_bytes,
                      device.limits().send_depth);
  device.connections().Add(id_.qp()->qp_num, this);
  counters_.begun.Add();
}

Connection::~Connection() { CHECK(!has_queue_pair_); }

// Removes the connection from its device first, so no completion finds it by
// the number of a queue pair that is gone. Receives and reservation go back
// last, because the device may write to them until DestroyQp().
void Connection::DestroyQueuePair() {
  device().RemoveConnection(id_.qp()->qp_num);
  id_.DestroyQp();
  receives().Leave();
  balance_.Release(*this);
  device().Release(memory());
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

// Sets both attributes in one call. If that fails, looks at the queue pair's
// state, to tell a peer that has gone from a device that refuses.
absl::Status Connection::FixQueuePair() {
  // iWARP has no such timer, and READs arrive as remote writes there: what a
  // peer may reach is for the keys of memory alone to say. Nor does siw look
  // at bytes that come while a queue pair is being modified, until others do:
  // a HELLO would wait for ever.
  if (device().limits().iwarp) return absl::OkStatus();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.min_rnr_timer = kMinRnrTimer;
  // RDMA CM lets the peer write to our memory. A server lets nobody.
  attributes.qp_access_flags = static_cast<unsigned int>(access_);
  const int error = device().provider().verbs.modify_qp(
      id_.qp(), &attributes,
      IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return absl::OkStatus();
  // A peer that has disconnected meanwhile has put the queue pair into the
  // error state, from where no way leads to this one.
  ibv_qp_attr present = {};
  ibv_qp_init_attr unused = {};
  if (device().provider().verbs.query_qp(id_.qp(), &present, IBV_QP_STATE,
                                         &unused) == 0 &&
      present.qp_state == IBV_QPS_ERR) {
    return absl::UnavailableError(
        absl::StrCat(peer_, " closed the connection as soon as it was made"));
  }
  return ErrnoStatus("modify_qp", peer_, error);
}

void Connection::SendGoAway() {
  if (life().ending()) return;
  // The GOAWAY goes out once the connection is open. Frames that complete
  // silently would leave sends_done() false, so none do from now on.
  goaway_due_ = true;
  SignalAll();
  device().connections().Touch(this);
  SendOwedControl();
}

// Ends the connection at each event that tells of its loss. The peer's silence
// counts from ESTABLISHED on.
void Connection::OnCmEvent(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      keepalive_.Restart(base::Now());
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      OnDisconnected(absl::UnavailableError(absl::StrCat(
          "the peer ", peer_, " closed the connection",
          state() == ConnectionState::kConnecting
              ? " before it was open; is it full (ServerBuilder::SetPollers)?"
              : "")));
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      device().Retire();
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
  if (calls_.WantsTheRest()) {
    device().PollToEmpty([this] { return !life().ending(); });
  }
  Close(reason);
}

PeerFacts Connection::Facts() const {
  uid_t user = 0;
  if (!device().provider().peer_user(id_.get(), &user)) return {};
  return {.user = user};
}

void Connection::ProtocolError(absl::string_view what) {
  // A flood is stopped at once: a BYE would leave the queue pair open to it
  // until that has arrived.
  BeginClose(absl::InternalError(absl::StrCat(
                 "the connection with ", peer_,
                 " was closed because the peer broke the protocol: ", what)),
             /*tell_peer=*/!CreditFlow::IsFlood(what));
}

absl::Status Connection::ExpectSums() {
  // A slot must hold the parts of a RESPONSE that have no other place, and the
  // sums behind them.
  constexpr uint32_t kLeast = kMinBufferBytes + sizeof(FrameSums);
  if (peer_limits().buffer_bytes < kLeast) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checksums need receive buffers of at least ", kLeast,
        " bytes; those of ", peer_, " have ", peer_limits().buffer_bytes));
  }
  set_expects_sums();
  guards_frames_ = true;
  return absl::OkStatus();
}

absl::Status Connection::BeginOpening(std::unique_ptr<Opener> opener) {
  // As in ExpectSums().
  constexpr uint32_t kLeast = kMinBufferBytes + kSealedFrameBytes;
  if (peer_limits().buffer_bytes < kLeast) {
    return absl::FailedPreconditionError(absl::StrCat(
        "sealed frames need receive buffers of at least ", kLeast,
        " bytes; those of ", peer_, " have ", peer_limits().buffer_bytes));
  }
  opener_ = std::move(opener);
  guards_frames_ = true;
  return absl::OkStatus();
}

void Connection::NotOpened(absl::string_view what, uint64_t bytes) {
  counters_.unopened.Add();
  // As DamageStatus().
  Refuse(absl::DataLossError(
      absl::StrCat("the connection with ", peer_, " was closed because ", what,
                   " of ", bytes, " bytes is not as the peer sealed it")));
}

void Connection::FrameDamaged(absl::Span<const uint8_t> frame, uint32_t stated,
                              uint32_t found) {
  const bool has_sums = frame.size() >= sizeof(FrameHeader) + sizeof(FrameSums);
  const char* const type =
      frame.size() < sizeof(FrameHeader)
          ? "nothing"
          : FrameTypeName(HeaderIn<FrameHeader>(frame).type);
  Refuse(DamageStatus(peer_,
                      absl::StrCat("a frame of ", frame.size(), " bytes, ",
                                   type, " by its header",
                                   has_sums ? "" : ", too short for checksums"),
                      stated, found));
}

void Connection::PartDamaged(absl::string_view part, uint64_t bytes,
                             uint32_t stated, uint32_t found) {
  Refuse(DamageStatus(
      peer_, absl::StrCat(part, ", ", bytes, " bytes beside its frame"), stated,
      found));
}

// Ends the calls last: a call that is started from inside OnClosing() finds the
// connection ending, and failure() says why. Once it is ending, a further
// reason is dropped, because it follows from the first.
void Connection::BeginClose(const absl::Status& reason, bool tell_peer) {
  if (!failure_.ok()) return;
  CHECK(!reason.ok());
  failure_ = reason;
  if (!usable()) counters_.failed_handshakes.Add();
  counters_.credit_waits.Add(credit_flow().TakeWaits());
  uint8_t flags = 0;
  if (absl::IsUnauthenticated(reason)) flags = kFlagUnauthenticated;
  if (absl::IsDataLoss(reason)) flags = kFlagDamaged;
  // A queue pair that is closed at once drops what it has not sent.
  if (tell_peer && SendControl(FrameType::kBye, reason.message(), flags)) {
    if (!life().ending()) ending_.AwaitBye();
  } else {
    ending_.Disconnect();
  }
  calls_.OnClosing();
}

void Connection::OnReceiveError(ibv_wc_status status) {
  // Some devices complete every receive that is posted in the error state, so
  // reposting would never end.
  receives().Stop();
  if (!life().ending()) {
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
                   device().name(), " reported ", what)));
}

void Connection::FailPostSlow(int error) {
  if (failure_.ok()) return Close(ErrnoStatus("post_send", "", error));
  // The BYE was refused. The reason to say it stays the reason.
  if (state() < ConnectionState::kDraining) ending_.Disconnect();
}

void Connection::OnForeignReceive(ibv_wc_opcode opcode) {
  // Frames are only ever sent by SEND. Besides that only a WRITE with immediate
  // data takes a receive.
  if (opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    return OnMisreport("that a receive was taken by no message");
  }
  ProtocolError("it took a receive with a WRITE");
}

void Connection::OnTick(absl::Time now) {
  counters_.credit_waits.Add(credit_flow().TakeWaits());
  if (!life().ending()) {
    KeepAlive(now);
    calls_.OnTick(now);
    balance_.Tick(*this, now);
    // Nothing goes behind the marker of a connection that has just closed.
    if (!life().ending()) SendOwedControl();
    FlushNow();
  }
  // Any of the steps above may have begun the end.
  ending_.Tick();
}

absl::Time Connection::NextTick() const {
  if (life().ending()) return ending_.NextTick();
  const absl::Time deadline =
      std::min(calls_.NextTick(), balance_.NextTick(*this));
  // While silence means nothing, the keepalive sends no PING and needs no tick.
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

// Handles the frames that are about the connection. An answer is only noted as
// owed here, because it may have to wait for a credit.
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
      // The peer chose the bytes, so control characters among them are escaped.
      const std::string reason = absl::Utf8SafeCHexEscape(absl::string_view(
          reinterpret_cast<const char*>(frame.data()) + sizeof(FrameHeader),
          frame.size() - sizeof(FrameHeader)));
      const uint8_t flags = HeaderIn<FrameHeader>(frame).flags;
      if ((flags & kFlagUnauthenticated) != 0) {
        Close(absl::UnauthenticatedError(absl::StrCat(
            "the peer ", peer_, " refused the connection: ", reason)));
      } else if ((flags & kFlagDamaged) != 0) {
        Close(absl::DataLossError(
            absl::StrCat("the peer ", peer_, " reports: ", reason)));
      } else {
        Close(absl::InternalError(absl::StrCat(
            "the peer ", peer_, " closed the connection: ", reason)));
      }
      return;
    }
    default: {
      CHECK(type == FrameType::kReturn);
      if (!balance_.TakeReturn(*this, HeaderIn<ReturnHeader>(frame).credits)) {
        ProtocolError("it gave back credits that it did not have");
      }
    }
  }
}

}  // namespace verbena::transport
