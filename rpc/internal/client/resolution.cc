#include "rpc/internal/client/resolution.h"

#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::internal {

Resolution* Resolution::Start(SharedPoller* poller, std::string target,
                              std::string device,
                              std::function<void(Result)> on_done) {
  auto* const resolution = new Resolution(
      poller, std::move(target), std::move(device), std::move(on_done));
  // The channel may be gone before a name server answers: the task still needs
  // the poller's thread.
  poller->Pin();
  poller->PostInBackground(resolution);
  return resolution;
}

Resolution::Result Resolution::Find() const {
  // First: no address can make up for a device that is not there.
  RETURN_IF_ERROR(transport::CheckDevice(device_));
  ASSIGN_OR_RETURN(const std::vector<base::SocketAddress> addresses,
                   base::SocketAddress::Resolve(target_));
  std::vector<Endpoint> endpoints;
  for (const base::SocketAddress& address : addresses) {
    const transport::Provider& provider =
        transport::ChooseProvider(address, device_);
    const transport::Provider* const fallback =
        transport::FallbackFor(provider, device_);
    endpoints.push_back({.address = address,
                         .provider = &provider,
                         .is_cheap = transport::IsCheapToAsk(provider, address),
                         .has_fallback = fallback != nullptr});
    if (fallback != nullptr) {
      endpoints.push_back(
          {.address = address, .provider = fallback, .is_fallback = true});
    }
  }
  return endpoints;
}

void Resolution::Run() {
  // Runs twice: on the background thread to look up, then on the owner of the
  // poller to tell.
  if (found_) return Tell();
  LookUp();
}

// Decides under the mutex whether anybody still waits. If so, the channel keeps
// the poller, and the pin is not needed any more.
void Resolution::LookUp() {
  result_ = Find();
  found_ = true;
  SharedPoller& poller = poller_;
  {
    const base::MutexLock lock(mutex_);
    if (!abandoned_) {
      poller.Unpin();
      // The thread that runs *this waits for the lock first.
      return poller.PostFromOutside(this);
    }
  }
  // Unpin() comes last, because the poller may end right after it.
  delete this;
  poller.Unpin();
}

// Looks once more: the channel may have given up while this was posted.
void Resolution::Tell() {
  bool abandoned;
  {
    const base::MutexLock lock(mutex_);
    abandoned = abandoned_;
  }
  if (!abandoned) on_done_(std::move(result_));
  delete this;
}

void Resolution::Abandon() {
  const base::MutexLock lock(mutex_);
  abandoned_ = true;
}

}  // namespace verbena::internal
