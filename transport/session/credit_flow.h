// The credits that a connection's headers tell of, both ways.

#ifndef VERBENA_TRANSPORT_SESSION_CREDIT_FLOW_H_
#define VERBENA_TRANSPORT_SESSION_CREDIT_FLOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "transport/base/limits.h"
#include "transport/session/credit_window.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Joins the credits of one connection's two directions: every header that comes
// is accounted here before anybody looks at its frame, and every header that
// goes gets what it says of credits here. See "Credits" in frame.h. Arithmetic
// only: no clock, no device.
class CreditFlow {
 public:
  // The peer's limits are known: it takes `initial` frames at first. No frame
  // is sent before, and none may come.
  void Begin(uint32_t initial) {
    begun_ = true;
    send_ = SendCredits(initial, kCredits);
  }

  // Whether a credited frame may be sent and leave `spare` credits to frames
  // that matter more. If not, the next header tells the peer that one waited.
  bool CanSend(uint32_t spare) {
    if (ABSL_PREDICT_TRUE(send_.available() > spare)) return true;
    if (begun_ && !starved_) ++waits_;
    starved_ = begun_;
    return false;
  }
  // As CanSend(0), for a frame that nobody waits for: asks for no credit.
  bool has_credit() const { return send_.available() > 0; }
  uint32_t available() const { return send_.available(); }
  // How often a frame had to wait since the last time this was asked.
  uint32_t TakeWaits() { return std::exchange(waits_, 0); }
  // How many credits were used so far, modulo 2^32.
  uint32_t used() const { return send_.sent(); }
  // How many credits a new request leaves to CANCEL, LEASE and ARENA.
  uint32_t RequestReserve() const {
    return std::min(kReservedCredits, send_.Share(kReservedShare));
  }

  // Errors of a frame for which no receive was posted: it took one that others
  // may need.
  static constexpr char kGrantOutOfTurn[] = "it sent a GRANT out of turn";
  static constexpr char kBeyondCredits[] =
      "it sent more messages than it had credits for";
  static bool IsFlood(absl::string_view error) {
    return error == kGrantOutOfTurn || error == kBeyondCredits;
  }

  // Accounts a frame that came. Returns what is wrong with it, or null.
  const char* Receive(const FrameHeader& header) {
    if (ABSL_PREDICT_FALSE(!begun_)) {
      // A side that is kept waiting may end it before it has begun here.
      return header.type == FrameType::kBye ? nullptr
                                            : "it sent something too early";
    }
    if (ABSL_PREDICT_FALSE(header.type == FrameType::kGrant)) {
      if (!send_.IsNews(header.credit_limit) || !grants_.Receive()) {
        return kGrantOutOfTurn;
      }
    }
    if (ABSL_PREDICT_FALSE(!send_.Update(header.credit_limit))) {
      return "its credit limit went back or beyond its window";
    }
    if (ABSL_PREDICT_FALSE(
            !grants_.Acknowledge((header.flags & kFlagGrantRead) != 0))) {
      return "it read a GRANT that was not sent";
    }
    if (ABSL_PREDICT_FALSE(NeedsCredit(header.type, header.flags) &&
                           !receive_.Receive())) {
      return kBeyondCredits;
    }
    return nullptr;
  }

  // How many more frames a correct peer may send that is told of no further
  // credits: those on its credits, a GRANT, and a BYE about damaged bytes.
  uint32_t FramesToCome() const { return receive_.outstanding() + 2; }

  // Fills in what the header at `frame`, which is sent next, says of credits,
  // and takes the credit that it costs.
  void Stamp(uint8_t* frame) {
    const uint32_t limit = receive_.Advertise();
    std::memcpy(frame + offsetof(FrameHeader, credit_limit), &limit,
                sizeof(limit));
    uint8_t flags = 0;
    if (grants_.Say()) flags |= kFlagGrantRead;
    if (starved_) flags |= kFlagCreditsWanted;
    frame[offsetof(FrameHeader, flags)] |= flags;
    starved_ = false;
    if (NeedsCredit(static_cast<FrameType>(frame[offsetof(FrameHeader, type)]),
                    frame[offsetof(FrameHeader, flags)])) {
      send_.Take();
    }
  }

  // Whether the peer is owed so many credits that it should hear of them in a
  // GRANT, and may be sent one. NoteGrant() right before that is stamped.
  bool GrantDue() const { return receive_.GrantDue() && grants_.may_send(); }
  void NoteGrant() { grants_.Sent(); }

  // How many receives are reserved for the peer. Whoever changes that reserves
  // them first, or gives them back afterwards.
  uint32_t window() const { return receive_.window(); }
  void GrowWindow(uint32_t count) { receive_.Grow(count); }
  // Takes back what the peer was not told of, down to the idle window; returns
  // how much.
  uint32_t ShrinkWindow() { return receive_.ShrinkToOutstanding(kIdleCredits); }

  // The peer gives `count` credits back. False if it did not have them.
  bool TakeReturn(uint32_t count) { return receive_.Return(count); }
  // Gives `count` credits back to the peer, for ever.
  void GiveBack(uint32_t count) { send_.GiveBack(count); }

  // Whether either direction has credits beyond those of an idle connection.
  bool HoldsIdle() const {
    return send_.available() > kIdleCredits ||
           receive_.window() > std::max(receive_.outstanding(), kIdleCredits);
  }
  // Whether a frame was sent or came since the last time this was asked.
  bool TakeActivity() {
    const uint32_t frames = send_.sent() + receive_.received();
    return frames != std::exchange(frames_seen_, frames);
  }

 private:
  bool begun_ = false;
  bool starved_ = false;  // A frame waits for a credit, or just did.
  uint32_t waits_ = 0;    // How often that was, since TakeWaits().
  SendCredits send_{0, 0};
  ReceiveCredits receive_{kIdleCredits};
  GrantTurns grants_;
  uint32_t frames_seen_ = 0;  // Frames both ways, at the last TakeActivity().
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CREDIT_FLOW_H_
