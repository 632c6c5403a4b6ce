// ServerCalls: how long a client may keep the server waiting.

#include "absl/strings/str_cat.h"
#include "transport/server/server_calls.h"

namespace verbena::transport {

void ServerCalls::StopWaiting(ServerCall* call) {
  if (turn_waiters_.Contains(call)) {
    turn_waiters_.Remove(call);
    return;
  }
  memory_waiters_.Remove(call);
  if (call->state_ == State::kAwaitsMemory && IsLargeRead(*call)) {
    --large_reads_;
  }
}

void ServerCalls::StopAwaitingLease(ServerCall* call) {
  if (call == lease_waiters_.front()) ++leases_passed_;
  lease_waiters_.Remove(call);
}

void ServerCalls::EndExpired(absl::Time now) {
  expiry_ = absl::InfiniteFuture();
  const absl::Status expired = absl::DeadlineExceededError(
      "the deadline of the call passed while it waited at the server");
  // The last of them is the one to which EndWaiting() adds.
  for (CallQueue<ServerCall>* line :
       {&turn_waiters_, &memory_waiters_, &lease_waiters_, &draining_,
        &initial_waiters_, &frame_waiters_}) {
    ServerCall* call = line->front();
    while (call != nullptr) {
      ServerCall* const next = line->Next(call);
      // A handler looks at the clock for itself.
      const bool ended = call->state_ != State::kHandling;
      if (ended && now < ExpiryOf(*call)) {
        NoteExpiry(*call);
      } else if (ended) {
        EndWaiting(*line, call, expired);
        // Sending may have lost the connection, and with it all that waits.
        if (!connection_.usable()) return;
      }
      call = next;
    }
  }
}

void ServerCalls::EndWaiting(CallQueue<ServerCall>& line, ServerCall* call,
                             const absl::Status& status) {
  if (&line == &frame_waiters_) return SetRefusal(call, status);
  if (call->state_ == State::kDraining) return FailDraining(call, status);
  if (&line == &lease_waiters_) {
    StopAwaitingLease(call);
  } else {
    StopWaiting(call);
  }
  Refuse(call, status);
}

std::optional<StallWatch::Line> ServerCalls::AwaitedCredits() const {
  const uint64_t waiting = uint64_t{frame_waiters_.size()} +
                           initial_waiters_.size() + streams_.waiting();
  const std::optional<uint64_t> spent = connection_.SpentCredits();
  if (waiting == 0 || !spent.has_value()) return std::nullopt;
  return StallWatch::Line{*spent, *spent + waiting};
}

void ServerCalls::WatchClient(absl::Time now) {
  if (parts_watch_.Tick(now, assembly_.unfinished())) {
    return CloseStalled("did not finish a frame that it had begun");
  }
  if (credits_watch_.Tick(now, AwaitedCredits())) {
    return CloseStalled("returned too few credits for the replies that wait");
  }
  if (sends_watch_.Tick(now, connection_.send_queue().Awaited())) {
    return CloseStalled("completed nothing of what was sent, read or written");
  }
  std::optional<uint64_t> asked;
  if (!lease_waiters_.empty()) asked = leases_passed_;
  if (!leases_watch_.Tick(now, asked)) return;
  // The client may be short of memory for reasons of its own: it keeps its
  // other calls.
  const absl::Duration limit = connection_.options().stall_timeout;
  const absl::Status stalled = absl::ResourceExhaustedError(
      absl::StrCat("the client lent no memory for the reply within ",
                   absl::FormatDuration(limit),
                   " (stall_timeout of the server): other "
                   "calls, or the application's Buffers, hold its arenas"));
  while (connection_.usable() && !lease_waiters_.empty() &&
         now - lease_waiters_.front()->lease_asked_time_ >= limit) {
    EndWaiting(lease_waiters_, lease_waiters_.front(), stalled);
  }
}

void ServerCalls::CloseStalled(absl::string_view what) {
  connection_.Close(absl::DeadlineExceededError(absl::StrCat(
      "the client ", connection_.peer(), " was dropped because for ",
      absl::FormatDuration(connection_.options().stall_timeout), " it ",
      what)));
}

}  // namespace verbena::transport
