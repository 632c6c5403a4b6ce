#include "transport/server/stall_guard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace verbena::transport {

void StallGuard::Tick(absl::Time now) {
  if (now >= shared_.lines.expiry) EndExpired(now);
  WatchClient(now);
}

absl::Time StallGuard::NextTick() const {
  absl::Time next = shared_.lines.expiry;
  for (const StallWatch* watch : {&parts_, &credits_, &sends_, &leases_}) {
    next = std::min(next, watch->NextTick());
  }
  return next;
}

// Looks at the lines only when the earliest expiry has come. Calls that stay
// note theirs anew.
void StallGuard::EndExpired(absl::Time now) {
  ServerLines& lines = shared_.lines;
  lines.expiry = absl::InfiniteFuture();
  const absl::Status expired = absl::DeadlineExceededError(
      "the deadline of the call passed while it waited at the server");
  // `frames` is the last of them, because the others' calls go there.
  for (base::IntrusiveList<ServerCall>* line :
       {&lines.turns, &lines.memory, &lines.leases, &lines.draining,
        &lines.initial_metadata, &lines.frames}) {
    ServerCall* call = line->front();
    while (call != nullptr) {
      ServerCall* const next = line->Next(call);
      // A handler looks at the clock for itself.
      if (!call->is_handled() && now < call->expiry()) {
        lines.NoteExpiry(*call);
      } else if (!call->is_handled()) {
        EndWaiting(call, expired);
        // Sending may have lost the connection, and with it all that waits.
        if (!connection_.usable()) return;
      }
      call = next;
    }
  }
}

// Ends a call by what it waits for, because each wait has its own line, and its
// own memory to give back.
void StallGuard::EndWaiting(ServerCall* call, const absl::Status& status) {
  switch (call->state()) {
    case ServerCallState::kPendingQueued:
    case ServerCallState::kReplyQueued:
      return ReplySender::RefuseQueued(call, status);
    case ServerCallState::kDraining:
      return streams_.FailDraining(call, status);
    case ServerCallState::kAwaitsLease:
      shared_.lines.StopAwaitingLease(call);
      return replies_.Refuse(call, status);
    case ServerCallState::kAwaitsMemory:
    case ServerCallState::kAwaitsReplyMemory:
      intake_.StopWaiting(call);
      return replies_.Refuse(call, status);
    default:  // Something is on its way; its end will look.
      return;
  }
}

// Begins the line at the credits that were spent: the number changes with each
// credit that comes. The end is reached when all that waits now has had one.
std::optional<StallWatch::Line> StallGuard::AwaitedCredits() const {
  const ServerLines& lines = shared_.lines;
  const uint64_t waiting = uint64_t{lines.frames.size()} +
                           lines.initial_metadata.size() + streams_.waiting();
  const CreditFlow& credits = connection_.credit_flow();
  if (waiting == 0 || credits.has_credit()) return std::nullopt;
  return StallWatch::Line{credits.used(), credits.used() + waiting};
}

// Ends the connection for the first three, because the device may use the
// memory until the queue pair is flushed. For want of a LEASE only calls end.
void StallGuard::WatchClient(absl::Time now) {
  if (parts_.Tick(now, intake_.unfinished())) {
    return Drop("did not finish a frame that it had begun");
  }
  if (credits_.Tick(now, AwaitedCredits())) {
    return Drop("returned too few credits for the replies that wait");
  }
  if (sends_.Tick(now, connection_.send_queue().Awaited())) {
    return Drop(
        "did not complete the SENDs, READs and WRITEs that the server had "
        "posted");
  }
  std::optional<uint64_t> asked;
  // The number stands for the first call in the line, and changes with it.
  if (!shared_.lines.leases.empty()) asked = shared_.lines.leases_passed;
  if (leases_.Tick(now, asked)) EndUnlent(now);
}

void StallGuard::EndUnlent(absl::Time now) {
  // The client may be short of memory for reasons of its own: it keeps its
  // other calls.
  const absl::Duration limit = connection_.options().stall_timeout;
  const absl::Status stalled = absl::ResourceExhaustedError(
      absl::StrCat("the client lent no memory for the reply within ",
                   absl::FormatDuration(limit),
                   " (stall_timeout of the server): other "
                   "calls, or the application's Buffers, hold its arenas"));
  base::IntrusiveList<ServerCall>& line = shared_.lines.leases;
  while (connection_.usable() && !line.empty() &&
         now - line.front()->reply().lease_asked_time >= limit) {
    EndWaiting(line.front(), stalled);
  }
}

void StallGuard::Drop(absl::string_view what) {
  connection_.Close(absl::DeadlineExceededError(absl::StrCat(
      "the client ", connection_.peer(), " was dropped because for ",
      absl::FormatDuration(connection_.options().stall_timeout), " it ",
      what)));
}

}  // namespace verbena::transport
