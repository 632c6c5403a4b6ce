#include "transport/soft/connected/driven_link.h"

#include <utility>

namespace verbena::soft {

// If the kernel does not watch the socket, the driver's own thread does.
void DrivenLink::Start(std::shared_ptr<LinkDriver> driver, QueuePair* qp,
                       CompletionQueue& queue, bool watch) {
  driver_ = std::move(driver);
  qp_ = qp;
  queue_ = &queue;
  watch_wanted_ = watch;
  TryActivate();
}

void DrivenLink::TryActivate() {
  if (driver_ == nullptr || active_) return;
  active_ = driver_->StartDriving();
  if (!active_ || !watch_wanted_) return;
  StreamWatch& streams = queue_->queue_pairs().streams();
  if (streams.Add(qp_, driver_->fd()) != 0) return;
  watched_ = input_ = true;
  output_ = false;
  CompletionChannel* const channel = queue_->channel_or_null();
  if (channel != nullptr && channel->WatchStreams(streams.fd()) != 0) {
    streams.Remove(driver_->fd());
    watched_ = false;
  }
}

void DrivenLink::Stop() {
  if (driver_ == nullptr) return;
  if (watched_) queue_->queue_pairs().streams().Remove(driver_->fd());
  driver_->StopDriving();
  driver_.reset();
  active_ = watched_ = false;
}

void DrivenLink::UpdateInterest(bool connected) {
  if (!watched_) return;
  const bool input = connected && !driver_->input_blocked();
  const bool output = connected && driver_->output_blocked();
  if (input == input_ && output == output_) return;
  input_ = input;
  output_ = output;
  queue_->queue_pairs().streams().SetInterest(qp_, driver_->fd(), input,
                                              output);
}

}  // namespace verbena::soft
