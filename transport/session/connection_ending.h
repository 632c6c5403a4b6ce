// The end of a connection, from its BYE until nothing is posted any more.

#ifndef VERBENA_TRANSPORT_SESSION_CONNECTION_ENDING_H_
#define VERBENA_TRANSPORT_SESSION_CONNECTION_ENDING_H_

#include <cstdint>

#include "absl/time/time.h"
#include "transport/session/call_table.h"
#include "transport/session/frame_sender.h"
#include "transport/verbs/cm_id.h"

namespace verbena::transport {

// Waits until the peer has the BYE, disconnects, and waits until everything
// that was posted has been flushed. No wait is longer than its limit. Poller
// thread only.
class ConnectionEnding {
 public:
  // All must outlive it. `calls` may still be under construction.
  ConnectionEnding(FrameSender& sender, CmId& id, const CallTable& calls)
      : sender_(sender), id_(id), calls_(calls) {}
  ConnectionEnding(const ConnectionEnding&) = delete;
  ConnectionEnding& operator=(const ConnectionEnding&) = delete;

  // A BYE was sent: disconnects as soon as the peer has it.
  void AwaitBye();
  void Disconnect();
  // A frame came, which nobody reads.
  void OnLateFrame();

  // The rest is for a connection that ends. Takes the next step if it is time.
  void Check();
  void Tick();
  absl::Time NextTick() const;

 private:
  // Whether no posted request will complete any more.
  bool flushed() const {
    return sender_.sends_done() && sender_.receives().idle();
  }

  FrameSender& sender_;
  CmId& id_;
  const CallTable& calls_;
  // When the present step is over, whatever the device does.
  absl::Time deadline_ = absl::InfiniteFuture();
  // Frames that the peer may still send while the BYE is on its way.
  uint32_t late_frames_left_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CONNECTION_ENDING_H_
