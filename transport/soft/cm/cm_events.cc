#include "transport/soft/cm/cm_events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace verbena::soft {
namespace {

// Channels that are kept after they were destroyed, for threads that come late:
// more than a program destroys in that moment.
constexpr size_t kDestroyedChannelsMax = 16;

}  // namespace

// Takes the oldest event, or waits for one without the lock and looks again.
// The pushes are counted under the lock, so an event that comes before the wait
// ends it at once.
int CmEvents::Get(CmChannel& channel, rdma_cm_event*& event) {
  while (true) {
    uint32_t pushes = 0;
    {
      const EventsLock lock(mutex_);
      if (channel.closed()) break;
      if (std::unique_ptr<CmEventRecord> record = channel.Pop()) {
        ++record->owner->events_unacked;
        if (record->child != nullptr) {
          --record->owner->requests_unread;
          // From here on the child belongs to the user.
          record->child->user_reference = record->child;
        }
        event = record.release();
        return 0;
      }
      const int flags = ::fcntl(channel.fd, F_GETFL);
      if (flags < 0) return errno;
      if ((flags & O_NONBLOCK) != 0) return EAGAIN;
      pushes = channel.pushes();
    }
    if (const int error = channel.AwaitPush(pushes); error != 0) return error;
  }
  // The channel is gone: see CmEvents::Get() in the header.
  for (;;) ::pause();
}

void CmEvents::Ack(CmEventRecord* event) {
  // Destroyed after the lock is released, since it may hold the last reference
  // to an endpoint.
  const std::unique_ptr<CmEventRecord> record(event);
  const EventsLock lock(mutex_);
  if (--record->owner->events_unacked == 0) acked_.NotifyAll();
}

void CmEvents::DestroyChannel(std::unique_ptr<CmChannel> channel) {
  const int flags = ::fcntl(channel->fd, F_GETFL);
  // Nobody can be waiting at a channel that does not block.
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return;
  std::deque<std::unique_ptr<CmEventRecord>> unread;
  const EventsLock lock(mutex_);
  // The events are destroyed after the lock is released, as in Ack().
  unread = channel->Close();
  destroyed_channels_.push_back(std::move(channel));
  if (destroyed_channels_.size() > kDestroyedChannelsMax) {
    destroyed_channels_.pop_front();
  }
}

void CmEvents::Add(CmEndpoint& endpoint, CmChannel& channel) {
  const EventsLock lock(mutex_);
  endpoint.channel = &channel;
  endpoint.user_reference = endpoint.shared_from_this();
}

void CmEvents::Migrate(CmEndpoint& endpoint, CmChannel& channel) {
  const EventsLock lock(mutex_);
  // An event that was read and is not acknowledged still belongs to the old
  // channel.
  while (endpoint.events_unacked != 0) lock.Wait(acked_);
  for (std::unique_ptr<CmEventRecord>& event :
       CmChannel::From(endpoint.channel)->Remove(endpoint)) {
    if (event->child != nullptr) event->child->channel = &channel;
    channel.Push(std::move(event));
  }
  endpoint.channel = &channel;
}

void CmEvents::Post(CmEndpoint& endpoint,
                    std::unique_ptr<CmEventRecord> event) {
  event->id = &endpoint;
  // Keeps the endpoint until the user has acknowledged the event.
  event->owner = endpoint.shared_from_this();
  const EventsLock lock(mutex_);
  CmChannel::From(endpoint.channel)->Push(std::move(event));
}

void CmEvents::PostRequest(CmEndpoint& listener,
                           std::shared_ptr<CmEndpoint> child,
                           std::unique_ptr<CmEventRecord> event) {
  event->id = child.get();
  event->listen_id = &listener;
  event->owner = listener.shared_from_this();
  const EventsLock lock(mutex_);
  child->channel = listener.channel;
  event->child = std::move(child);
  ++listener.requests_unread;
  CmChannel::From(listener.channel)->Push(std::move(event));
}

int CmEvents::UnreadRequests(const CmEndpoint& listener) {
  const EventsLock lock(mutex_);
  return listener.requests_unread;
}

std::vector<std::shared_ptr<CmEndpoint>> CmEvents::Remove(
    CmEndpoint& endpoint) {
  // The events are destroyed after the lock is released, as in Ack().
  std::vector<std::unique_ptr<CmEventRecord>> unread;
  {
    const EventsLock lock(mutex_);
    unread = CmChannel::From(endpoint.channel)->Remove(endpoint);
    endpoint.user_reference = nullptr;
  }
  std::vector<std::shared_ptr<CmEndpoint>> children;
  for (const std::unique_ptr<CmEventRecord>& event : unread) {
    if (event->child != nullptr) children.push_back(std::move(event->child));
  }
  return children;
}

void CmEvents::AwaitAcks(const CmEndpoint& endpoint) {
  const EventsLock lock(mutex_);
  while (endpoint.events_unacked != 0) lock.Wait(acked_);
}

}  // namespace verbena::soft
