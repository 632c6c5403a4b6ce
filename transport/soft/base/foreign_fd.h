// Descriptors that somebody else has sent, and how they are closed.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_FOREIGN_FD_H_
#define VERBENA_TRANSPORT_SOFT_BASE_FOREIGN_FD_H_

#include <cstddef>
#include <utility>

#include "transport/base/unique_fd.h"

namespace verbena::soft {

// Owns a descriptor of any file, or nothing. To close such a descriptor may
// take as long as its sender likes: close() may wait for bytes that a socket is
// to get rid of first (SO_LINGER), or for the process that serves a file
// system. So it is closed on a thread that does nothing else.
//
// Not thread-safe.
class ForeignFd {
 public:
  // When so many wait to be closed, no more should be received.
  static constexpr size_t kClosingMax = 64;

  ForeignFd() = default;
  explicit ForeignFd(base::UniqueFd fd) : fd_(std::move(fd)) {}
  ForeignFd(ForeignFd&& other) noexcept = default;
  ForeignFd& operator=(ForeignFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  ~ForeignFd() { Reset(); }

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void Reset();

  // Hands it to a caller that knows what it is, and that its close() does not
  // wait.
  base::UniqueFd Release() { return std::move(fd_); }

  // Whether fewer than kClosingMax wait to be closed, in this process. If not,
  // one of them holds up the others.
  static bool HasRoom();

 private:
  base::UniqueFd fd_;
};

// Closes a socket of type SOCK_SEQPACKET whose other end may have put
// descriptors into it, or that listens for connections of which that is true.
// First it is shut down, so that nothing more can come; then the messages are
// taken out, since the descriptors in a socket are closed with it.
void CloseEmptied(base::UniqueFd socket);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_FOREIGN_FD_H_
