#include "transport/soft/cm/cm_endpoint.h"

#include <sys/eventfd.h>

#include <cstring>
#include <utility>

#include "transport/base/check.h"

namespace verbena::soft {

void CmEndpoint::SetLocal(const base::SocketAddress& address) {
  std::memcpy(&route.addr.src_storage, address.get(), address.size());
}

void CmEndpoint::SetPeer(const base::SocketAddress& address) {
  std::memcpy(&route.addr.dst_storage, address.get(), address.size());
}

void CmEndpoint::Transition(CmState to) {
  CHECK(CanTransition(state, to))
      << CmStateName(state) << " to " << CmStateName(to);
  state = to;
}

std::unique_ptr<CmChannel> CmChannel::Create() {
  base::UniqueFd event_fd(::eventfd(0, EFD_CLOEXEC));
  if (!event_fd.valid()) return nullptr;
  std::unique_ptr<CmChannel> channel(new CmChannel());
  channel->fd = event_fd.get();
  channel->event_fd_ = std::move(event_fd);
  return channel;
}

void CmChannel::Push(std::unique_ptr<CmEventRecord> event) {
  if (events_.empty()) SetReadable(true);
  events_.push_back(std::move(event));
}

std::unique_ptr<CmEventRecord> CmChannel::Pop() {
  if (events_.empty()) return nullptr;
  std::unique_ptr<CmEventRecord> event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty()) SetReadable(false);
  return event;
}

std::vector<std::unique_ptr<CmEventRecord>> CmChannel::Remove(
    const CmEndpoint& owner) {
  std::vector<std::unique_ptr<CmEventRecord>> removed;
  std::deque<std::unique_ptr<CmEventRecord>> kept;
  for (std::unique_ptr<CmEventRecord>& event : events_) {
    if (event->owner.get() == &owner) {
      removed.push_back(std::move(event));
    } else {
      kept.push_back(std::move(event));
    }
  }
  events_ = std::move(kept);
  if (!removed.empty() && events_.empty()) SetReadable(false);
  return removed;
}

std::deque<std::unique_ptr<CmEventRecord>> CmChannel::Close() {
  event_fd_.Reset();
  fd = -1;
  return std::exchange(events_, {});
}

void CmChannel::SetReadable(bool readable) {
  // The counter goes from 0 to 1 and back, so neither call ever blocks.
  eventfd_t value = 1;
  const int result =
      readable ? ::eventfd_write(fd, value) : ::eventfd_read(fd, &value);
  CHECK_EQ(result, 0) << std::strerror(errno);
}

}  // namespace verbena::soft
