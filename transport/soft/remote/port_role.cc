#include "transport/soft/remote/port_role.h"

#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

using std::chrono::milliseconds;

// The pause before the next attempt at a role that changes hands right now.
constexpr milliseconds kRolePause(10);
// The pause after any other failure, such as being out of descriptors.
constexpr milliseconds kLongPause(1000);

// How many processes can wait for the one that has the role.
constexpr int kBacklog = 1024;

base::UniqueFd RoleSocket() {
  return base::UniqueFd(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

// Binds the name of the role. If that fails, connects to the process that has
// it, and is told of its end by the end of the connection.
bool PortRole::Take() {
  owner_.Reset();
  const UnixName name(
      absl::StrCat(absl::string_view("\0verbena-soft-port/", 19), port_));
  base::UniqueFd role = RoleSocket();
  if (!role.valid()) {
    Retry(kLongPause);
    return false;
  }
  if (::bind(role.get(), name.get(), name.length()) == 0 &&
      ::listen(role.get(), kBacklog) == 0) {
    role_ = std::move(role);
    return true;
  }
  base::UniqueFd owner = RoleSocket();
  if (!owner.valid() ||
      ::connect(owner.get(), name.get(), name.length()) != 0) {
    Retry(errno == ECONNREFUSED ? kRolePause : kLongPause);
    return false;
  }
  owner_ = std::move(owner);
  // The owner never sends anything, so what can be read is its end.
  engine_.WatchWhenPossible(owner_.get(), [this, fd = owner_.get()] {
    engine_.Unwatch(fd);
    on_free_();
  });
  return false;
}

void PortRole::Retry(milliseconds delay) {
  timer_ = engine_.StartTimer(delay, on_free_);
}

void PortRole::StopWaiting() {
  if (owner_.valid()) engine_.Unwatch(owner_.get());
  if (timer_ != 0) engine_.CancelTimer(timer_);
}

}  // namespace verbena::soft
