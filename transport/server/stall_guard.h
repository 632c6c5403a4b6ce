// How long a client may keep a server waiting.

#ifndef VERBENA_TRANSPORT_SERVER_STALL_GUARD_H_
#define VERBENA_TRANSPORT_SERVER_STALL_GUARD_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/server/reply_sender.h"
#include "transport/server/request_intake.h"
#include "transport/server/server_call.h"
#include "transport/server/server_shared.h"
#include "transport/server/server_streams.h"
#include "transport/session/stall_watch.h"

namespace verbena::transport {

// Ends calls whose deadline passes while they wait, and calls or the connection
// if the client owes something for longer than `stall_timeout`. Poller thread
// only.
class StallGuard {
 public:
  StallGuard(ServerShared& shared, RequestIntake& intake,
             ServerStreams& streams, ReplySender& replies,
             absl::Duration stall_timeout)
      : shared_(shared),
        connection_(shared.connection),
        intake_(intake),
        streams_(streams),
        replies_(replies),
        parts_(stall_timeout),
        credits_(stall_timeout),
        sends_(stall_timeout),
        leases_(stall_timeout) {}
  StallGuard(const StallGuard&) = delete;
  StallGuard& operator=(const StallGuard&) = delete;

  void Tick(absl::Time now);
  absl::Time NextTick() const;

  // Takes a call out of the line that it waits in, and ends it with `status`.
  // REQUIRES: it waits in a line, and has left its handler.
  void EndWaiting(ServerCall* call, const absl::Status& status);

 private:
  // Ends the calls that wait although their deadline has passed.
  void EndExpired(absl::Time now);
  // Ends the connection if the client keeps it waiting for too long, and calls
  // whose replies it lends no memory for.
  void WatchClient(absl::Time now);
  void EndUnlent(absl::Time now);
  // Returns the credits that the replies and messages which wait now need, at
  // the least.
  std::optional<StallWatch::Line> AwaitedCredits() const;
  void Drop(absl::string_view what);

  ServerShared& shared_;
  Connection& connection_;  // The shared one.
  RequestIntake& intake_;
  ServerStreams& streams_;
  ReplySender& replies_;
  // Watches, each over a thing that the client may owe.
  StallWatch parts_;    // The rest of a frame.
  StallWatch credits_;  // Credits for what is to be sent.
  StallWatch sends_;    // Completions of what was posted.
  StallWatch leases_;   // Memory for replies.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_STALL_GUARD_H_
