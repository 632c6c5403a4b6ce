#include "transport/soft/base/foreign_fd.h"

#include <sys/socket.h>

#include <cerrno>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/soft/base/fd_message.h"

namespace verbena::soft {
namespace {

// The thread of a process that closes what may take long. It is there from the
// first such descriptor on, until the process ends, which does not wait for it.
//
// Thread-safe.
class ClosingThread {
 public:
  // Never destroyed, as the thread never ends.
  static ClosingThread& Get() {
    static ClosingThread& thread = *new ClosingThread;
    return thread;
  }

  void Add(base::UniqueFd fd) {
    const base::MutexLock lock(mutex_);
    waiting_.push_back(std::move(fd));
    if (!runs_) Start();
    changed_.NotifyAll();
  }

  bool HasRoom() {
    const base::MutexLock lock(mutex_);
    return waiting_.size() < ForeignFd::kClosingMax;
  }

 private:
  // If no thread can be started, descriptors wait until the next Add() tries.
  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    runs_ = threads_.Start([this] { Run(); }).ok();
  }

  void Run() {
    for (;;) {
      base::UniqueFd fd;
      {
        const base::MutexLock lock(mutex_);
        while (waiting_.empty()) changed_.Wait(mutex_);
        fd = std::move(waiting_.front());
        waiting_.pop_front();
      }
      // Its sender may set the option again, and then holds up this thread,
      // which is there for that.
      constexpr linger kAtOnce = {.l_onoff = 0, .l_linger = 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof(kAtOnce));
    }
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<base::UniqueFd> waiting_ ABSL_GUARDED_BY(mutex_);
  base::ThreadGroup threads_{"verbena-fd"};  // The one thread.
};

}  // namespace

void ForeignFd::Reset() {
  if (fd_.valid()) ClosingThread::Get().Add(std::move(fd_));
}

bool ForeignFd::HasRoom() { return ClosingThread::Get().HasRoom(); }

void CloseEmptied(base::UniqueFd socket) {
  if (!socket.valid()) return;
  // From now on nothing more comes, so the loops below end.
  ::shutdown(socket.get(), SHUT_RDWR);
  for (;;) {
    base::UniqueFd visitor(
        ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.valid()) break;
    CloseEmptied(std::move(visitor));
  }
  // With this an empty message can be told from the end.
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
  FdMessage message;
  do {
    char byte;
    message = ReceiveFdMessage(socket.get(), &byte, sizeof(byte));
  } while (message.length >= 0 && !message.end);
  // The socket could not be emptied: the closing thread closes it, with what is
  // left in it.
  if (message.error == ENOBUFS || message.error == EMFILE) {
    const ForeignFd later(std::move(socket));
  }
}

}  // namespace verbena::soft
