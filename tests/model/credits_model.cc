#include "tests/model/credits_model.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/model/explorer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/session/connection_state.h"
#include "transport/session/credit_balance.h"
#include "transport/session/credit_flow.h"
#include "transport/session/frame_sender.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::model {
namespace {

using transport::CreditFlow;
using transport::FrameHeader;
using transport::FrameSender;
using transport::FrameType;
using transport::kGrantReceives;
using transport::kIdleCredits;
using transport::kIdleReceives;
using transport::ReturnHeader;

constexpr char kReads[] = "reads";
constexpr char kEndsRound[] = "ends its round";
constexpr char kCalls[] = "has a frame to send";
constexpr char kPings[] = "has a PING to send";
constexpr char kPauses[] = "has been idle for a second";

constexpr const char* kNames[] = {"client", "server"};

// The real one, but for a rule that it breaks.
class Flow : public CreditFlow {
 public:
  void Break(CreditRule rule) { broken_ = rule; }
  bool breaks(CreditRule rule) const { return broken_ == rule; }

  bool CanSend(uint32_t spare) {
    return CreditFlow::CanSend(spare) || breaks(CreditRule::kFrameTakesCredit);
  }
  bool GrantDue() const {
    if (breaks(CreditRule::kGrantIsDue)) return false;
    if (breaks(CreditRule::kGrantHasNews)) return true;
    if (breaks(CreditRule::kGrantWaitsForBit)) {
      const uint32_t owed = window() - (FramesToCome() - 2);
      return owed >= (window() < 4 ? window() : window() / 2);
    }
    if (breaks(CreditRule::kGrantNeedsNoCredit) && !has_credit()) return false;
    return CreditFlow::GrantDue();
  }
  void Stamp(uint8_t* frame) {
    CreditFlow::Stamp(frame);
    auto* const header = reinterpret_cast<FrameHeader*>(frame);
    if (breaks(CreditRule::kGrantReadIsSaid)) {
      header->flags &= static_cast<uint8_t>(~transport::kFlagGrantRead);
    }
    if (breaks(CreditRule::kLimitNeverGoesBack) &&
        header->type != FrameType::kGrant && header->credit_limit > 1) {
      --header->credit_limit;
    }
  }
  // A RETURN gives back all of them but the one that it takes.
  uint32_t available() const {
    return CreditFlow::available() +
           (breaks(CreditRule::kReturnTakesACredit) ? 1 : 0);
  }
  uint32_t ShrinkWindow() {
    const uint32_t shrunk = CreditFlow::ShrinkWindow();
    if (!breaks(CreditRule::kToldCreditsStay)) return shrunk;
    const uint32_t more = window() - kIdleCredits;
    GrowWindow(-more);
    return shrunk + more;
  }
  bool TakeReturn(uint32_t count) {
    return breaks(CreditRule::kReturnShrinksWindow) ||
           CreditFlow::TakeReturn(count);
  }

 private:
  CreditRule broken_ = CreditRule::kNone;
};

// A frame that was sent and not read: what matters here of its header.
struct Frame {
  uint32_t limit = 0;
  FrameType type = {};
  uint8_t flags = 0;
  uint8_t returned = 0;  // Credits, in a RETURN.

  std::string ToString() const {
    return absl::StrCat(
        transport::FrameTypeName(type), "(limit ", limit,
        (flags & transport::kFlagCreditsWanted) != 0 ? ", wanted" : "",
        (flags & transport::kFlagGrantRead) != 0 ? ", odd" : "",
        returned > 0 ? absl::StrCat(", returns ", returned) : "", ")");
  }
};

class Sender;

// An end of the connection.
struct End {
  static constexpr size_t kUnreadMax = 12;

  Flow flow;
  transport::CreditRules<Sender> balance;
  uint8_t frames_to_come = 0;
  uint8_t pings_to_come = 0;
  uint8_t pauses_to_come = 0;
  uint8_t spare = 0;                 // Receives that it may still post.
  uint8_t receives = kIdleReceives;  // Posted for the peer's frames.
  uint8_t frames = 0;                // They wait to be sent.
  bool ping_due = false;
  bool pong_due = false;
  bool in_round = false;  // Something was read since the last round ended.
  uint8_t unread_count = 0;
  Frame unread[kUnreadMax];  // Sent by the other end.

  bool idle() const {
    return frames_to_come + pings_to_come + frames + unread_count == 0 &&
           !ping_due && !pong_due && !in_round;
  }
};

// Both ends. Each is one thread, and frames arrive in their order; nothing else
// is certain.
class Connection {
 public:
  explicit Connection(const CreditBounds& bounds, CreditRule broken)
      : sought_window_(bounds.sought_window) {
    for (uint8_t side = 0; side < 2; ++side) {
      End& end = ends_[side];
      end.frames_to_come = bounds.frames[side];
      end.pings_to_come = bounds.pings[side];
      end.pauses_to_come = bounds.pauses[side];
      end.spare = bounds.spare[side];
      end.flow.Begin(kIdleCredits);
      end.flow.Break(broken);
    }
  }
  Connection() = default;

  template <typename Visit>
  void VisitSteps(Visit visit) const;
  void Take(const Step& step);
  const char* wrong() const { return wrong_; }
  bool done() const { return ends_[0].idle() && ends_[1].idle(); }
  std::string Words(const Step& step) const;
  std::string ToString() const;

 private:
  friend class Sender;

  void Read(uint8_t side);
  void SendFrames(uint8_t side);
  void EndRound(uint8_t side);

  const char* wrong_ = nullptr;
  uint8_t sought_window_ = 0;
  End ends_[2];
};

// As FrameSender: an end in the middle of a step.
class Sender {
 public:
  Sender(Connection* all, uint8_t side)
      : all_(*all), end_(all->ends_[side]), peer_(all->ends_[1 - side]) {}

  Flow& credit_flow() { return end_.flow; }
  transport::ConnectionState state() const {
    return transport::ConnectionState::kOpen;
  }
  bool usable() const { return true; }
  uint8_t* BeginAnyFrame(uint32_t /*bytes*/) { return frame_; }
  void SendAnyFrame(uint32_t bytes, bool /*signalled*/);
  bool SendControl(FrameType type);

  // As SendQueue.
  Sender& send_queue() { return *this; }
  bool HasFrameRoom() const { return true; }

  // As PollerDevice and ReceiveBuffers.
  Sender& device() { return *this; }
  Sender& receives() { return *this; }
  uint32_t GrowReceives(Sender& /*receives*/, uint32_t wanted) {
    const bool bounded = !end_.flow.breaks(CreditRule::kWindowIsBounded);
    const uint32_t count =
        bounded ? std::min<uint32_t>(wanted, end_.spare) : transport::kCredits;
    if (end_.flow.breaks(CreditRule::kReceivesComeFirst)) return count;
    if (bounded) end_.spare = static_cast<uint8_t>(end_.spare - count);
    end_.receives = static_cast<uint8_t>(end_.receives + count);
    return count;
  }
  void ShrinkReceives(Sender& /*receives*/, uint32_t count) {
    end_.spare = static_cast<uint8_t>(end_.spare + count);
    end_.receives = static_cast<uint8_t>(end_.receives - count);
  }

 private:
  Connection& all_;
  End& end_;
  End& peer_;
  alignas(FrameHeader) uint8_t frame_[sizeof(ReturnHeader)] = {};
};

void Sender::SendAnyFrame(uint32_t bytes, bool /*signalled*/) {
  end_.flow.Stamp(frame_);
  ReturnHeader header = {};
  std::memcpy(&header, frame_, bytes);
  if (peer_.unread_count == std::min<size_t>(peer_.receives, End::kUnreadMax)) {
    all_.wrong_ = "a SEND finds no receive";
    return;
  }
  Frame& sent = peer_.unread[peer_.unread_count++];
  sent.limit = header.frame.credit_limit;
  sent.type = header.frame.type;
  sent.flags = header.frame.flags;
  sent.returned = static_cast<uint8_t>(header.credits);
}

// As FrameSender::SendControl().
bool Sender::SendControl(FrameType type) {
  if (!end_.flow.has_credit()) return false;
  const FrameHeader header = FrameSender::PlainHeader(type, 0);
  std::memcpy(frame_, &header, sizeof(header));
  SendAnyFrame(sizeof(header), /*signalled=*/true);
  return true;
}

template <typename Visit>
void Connection::VisitSteps(Visit visit) const {
  for (uint8_t side = 0; side < 2; ++side) {
    const End& end = ends_[side];
    if (end.unread_count > 0) visit(Step{kReads, side});
    if (end.in_round) visit(Step{kEndsRound, side});
    if (end.frames_to_come > 0) visit(Step{kCalls, side});
    if (end.pings_to_come > 0 && !end.ping_due) visit(Step{kPings, side});
    if (end.pauses_to_come > 0) visit(Step{kPauses, side});
  }
}

void Connection::Take(const Step& step) {
  const uint8_t side = step.a;
  End& end = ends_[side];
  if (step.name == kReads) {
    Read(side);
  } else if (step.name == kEndsRound) {
    EndRound(side);
  } else if (step.name == kCalls) {
    --end.frames_to_come;
    ++end.frames;
    SendFrames(side);
  } else if (step.name == kPings) {
    --end.pings_to_come;
    end.ping_due = true;
    end.in_round = true;
  } else {
    // Two ticks with a second between them, in which nothing happens here. Time
    // itself would make states differ that do not.
    --end.pauses_to_come;
    Sender sender(this, side);
    for (const int second : {0, 1}) {
      end.balance.Tick(sender, absl::UnixEpoch() + absl::Seconds(second));
    }
    end.in_round = true;
  }
  // A statistic, which would make two states of one.
  end.flow.TakeWaits();
}

// As Connection::OnReceive().
void Connection::Read(uint8_t side) {
  End& end = ends_[side];
  const Frame frame = end.unread[0];
  std::copy(end.unread + 1, end.unread + end.unread_count, end.unread);
  end.unread[--end.unread_count] = Frame();
  FrameHeader header = FrameSender::PlainHeader(frame.type, 0);
  header.credit_limit = frame.limit;
  header.flags = frame.flags;
  wrong_ = end.flow.Receive(header);
  if (wrong_ != nullptr) return;
  Sender sender(this, side);
  if ((frame.flags & transport::kFlagCreditsWanted) != 0) {
    end.balance.GrowWindow(sender);
  }
  end.in_round = true;
  if (frame.type == FrameType::kRequest) end.balance.NoteServed();
  if (frame.type == FrameType::kPing) end.pong_due = true;
  if (frame.type == FrameType::kReturn &&
      !end.balance.TakeReturn(sender, frame.returned)) {
    wrong_ = "it gave back credits that it did not have";
  }
  if (sought_window_ > 0 && end.flow.window() >= sought_window_) {
    wrong_ = "the sought window";
  }
}

void Connection::SendFrames(uint8_t side) {
  End& end = ends_[side];
  // Only a client's requests leave credits to other frames.
  while (end.frames > 0 && wrong_ == nullptr &&
         end.flow.CanSend(side == 0 ? end.flow.RequestReserve() : 0)) {
    --end.frames;
    Sender sender(this, side);
    const FrameHeader header = FrameSender::PlainHeader(FrameType::kRequest, 0);
    std::memcpy(sender.BeginAnyFrame(sizeof(header)), &header, sizeof(header));
    sender.SendAnyFrame(sizeof(header), /*signalled=*/false);
  }
}

// As Connection::FinishRound().
void Connection::EndRound(uint8_t side) {
  End& end = ends_[side];
  end.in_round = false;
  SendFrames(side);
  Sender sender(this, side);
  if (end.pong_due && sender.SendControl(FrameType::kPong)) {
    end.pong_due = false;
  }
  if (end.ping_due && sender.SendControl(FrameType::kPing)) {
    end.ping_due = false;
  }
  if (wrong_ == nullptr && end.flow.GrantDue()) end.balance.SendGrant(sender);
}

std::string Connection::Words(const Step& step) const {
  const std::string words = absl::StrCat(kNames[step.a], " ", step.name);
  return step.name == kReads
             ? absl::StrCat(words, " ", ends_[step.a].unread[0].ToString())
             : words;
}

std::string Connection::ToString() const {
  std::string text;
  for (int side = 0; side < 2; ++side) {
    const End& end = ends_[side];
    absl::StrAppend(&text, side == 0 ? "" : "; ", kNames[side], ": ",
                    end.flow.available(), " credits, ",
                    int{end.frames} + int{end.ping_due} + int{end.pong_due},
                    " frames wait, a window of ", end.flow.window(), ", ",
                    int{end.receives}, " receives, unread:");
    if (end.unread_count == 0) absl::StrAppend(&text, " none");
    for (int i = 0; i < end.unread_count; ++i) {
      absl::StrAppend(&text, " ", end.unread[i].ToString());
    }
  }
  return text;
}

}  // namespace

Exploration ExploreCredits(const CreditBounds& bounds, CreditRule broken) {
  return Explore(Connection(bounds, broken));
}

}  // namespace verbena::model
