#include "transport/soft/cm/cm_channel.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "transport/base/check.h"

namespace verbena::soft {

void CmEventRecord::SetConnection(const CmMessage& message,
                                  uint8_t data_bytes) {
  rdma_conn_param& parameters = param.conn;
  // The two depths change places: what the peer can start is what this side
  // must answer.
  parameters.responder_resources = message.initiator_depth;
  parameters.initiator_depth = message.responder_resources;
  parameters.retry_count = message.retry_count;
  parameters.rnr_retry_count = message.rnr_retry_count;
  parameters.qp_num = message.qp_num;
  if (data_bytes != 0) {
    private_data = message.private_data;
    parameters.private_data = private_data.data();
    parameters.private_data_len = data_bytes;
  }
}

void CmEventRecord::SetServiceData(std::span<const uint8_t> data) {
  std::memcpy(private_data.data(), data.data(), data.size());
  param.ud.private_data = private_data.data();
  param.ud.private_data_len = static_cast<uint8_t>(data.size());
}

std::unique_ptr<CmChannel> CmChannel::Create(ConnectionManager* manager) {
  base::UniqueFd event_fd(::eventfd(0, EFD_CLOEXEC));
  if (!event_fd.valid()) return nullptr;
  return std::unique_ptr<CmChannel>(
      new CmChannel(manager, std::move(event_fd)));
}

CmChannel::CmChannel(ConnectionManager* manager, base::UniqueFd event_fd)
    : rdma_event_channel{.fd = event_fd.get()},
      manager_(manager),
      event_fd_(std::move(event_fd)) {}

// A futex is a wait that goes on after a signal if the program has asked for
// that (SA_RESTART), as the kernel's own wait for events; poll(2) never does.
int CmChannel::AwaitPush(uint32_t pushes) const {
  static_assert(sizeof(pushes_) == sizeof(uint32_t));
  const auto result = ::syscall(SYS_futex, &pushes_, FUTEX_WAIT_PRIVATE, pushes,
                                nullptr, nullptr, 0);
  // EAGAIN: something was pushed since the caller looked.
  return result == 0 || errno == EAGAIN ? 0 : errno;
}

void CmChannel::WakeAll() {
  // Relaxed, because it is read and changed with the lock; the futex compares
  // it once more.
  pushes_.fetch_add(1, std::memory_order_relaxed);
  ::syscall(SYS_futex, &pushes_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
}

void CmChannel::Push(std::unique_ptr<CmEventRecord> event) {
  // The descriptor counts no events: it is readable from the first to the last.
  if (events_.empty()) SetReadable(true);
  events_.push_back(std::move(event));
  WakeAll();
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

// Wakes the threads that wait, because no event will: they find the channel
// closed.
std::deque<std::unique_ptr<CmEventRecord>> CmChannel::Close() {
  event_fd_.Reset();
  fd = -1;
  WakeAll();
  return std::exchange(events_, {});
}

void CmChannel::SetReadable(bool readable) {
  // An identifier that outlives its channel still gets events, which nobody
  // reads.
  if (closed()) return;
  // The counter goes from 0 to 1 and back, so neither call ever blocks.
  eventfd_t value = 1;
  const int result =
      readable ? ::eventfd_write(fd, value) : ::eventfd_read(fd, &value);
  CHECK_EQ(result, 0) << std::strerror(errno);
}

}  // namespace verbena::soft
