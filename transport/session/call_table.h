// The calls that a connection carries, as the connection sees them.

#ifndef VERBENA_TRANSPORT_SESSION_CALL_TABLE_H_
#define VERBENA_TRANSPORT_SESSION_CALL_TABLE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/session/keepalive.h"

namespace verbena::transport {

// The open calls of one connection: ClientCalls or ServerCalls. The table has
// the connection, and the connection tells it what happens. Confined to the
// poller's thread.
class CallTable {
 public:
  // A frame about calls, or one that opens the connection, has come. It was
  // checked, and its credits are accounted; it is the transport's again on
  // return. `plain`: see IsPlainCall() in frame_codec.h.
  virtual void OnFrame(absl::Span<const uint8_t> frame, bool plain) = 0;

  // The frame that comes next has invalidated that key of ours.
  virtual void OnInvalidated(uint32_t /*rkey*/) {}

  // Sends what waits for credits, buffers or memory, as far as it can. Returns
  // whether something still waits. Called at the end of every round of the
  // poller while something does.
  virtual bool SendWaiting() = 0;

  // A READ or WRITE that was posted with `tag` has ended: well, unless the
  // connection is closing.
  virtual void OnTransferDone(void* tag) = 0;

  // The connection has begun to close: every call ends with its failure().
  virtual void OnClosing() = 0;

  // See Connection::OnTick(). The connection may just have begun to close.
  virtual void OnTick(absl::Time now) = 0;
  virtual absl::Time NextTick() const = 0;

  // Returns what the peer's silence means at present.
  virtual Keepalive::Silence silence() const = 0;

  // Whether somebody outside still has a call of the table, so that it must
  // stay although the connection has nothing posted.
  virtual bool InUse() const { return false; }

  // The peer wants no new calls here, or will make none.
  virtual void OnGoAway() = 0;

  // The peer has disconnected: whether what it sent before, and nobody has seen
  // yet, is wanted before the connection closes.
  virtual bool WantsTheRest() const { return false; }

 protected:
  ~CallTable() = default;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CALL_TABLE_H_
