// Messages with descriptors on Unix sockets.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_
#define VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "transport/base/unique_fd.h"

namespace verbena::soft {

// Descriptors of one message at most.
inline constexpr size_t kFdsMax = 2;

// Up to kFdsMax descriptors, borrowed; -1 for none. Those that are there come
// first.
using FdsToPass = std::array<int, kFdsMax>;
inline constexpr FdsToPass kNoFds = {-1, -1};

// Sends one message on `socket`, a socket that keeps messages apart: to its
// peer, or to the abstract name `to` (with its leading zero byte) unless that
// is empty. Blocks only on a datagram socket in blocking mode. Returns 0 or an
// errno.
int SendFdMessage(int socket, const void* bytes, size_t length, FdsToPass fds,
                  std::string_view to = {});

// One message, received from anybody.
struct FdMessage {
  // Bytes received, no more than there was room for; 0 at the end of the
  // socket, negative with an errno.
  ssize_t length = 0;
  int error = 0;
  bool cut = false;  // Bytes or descriptors did not fit.
  size_t fd_count = 0;
  std::array<base::UniqueFd, kFdsMax> fds;
};

// Never blocks. No descriptor leaks whatever was sent.
FdMessage ReceiveFdMessage(int socket, void* bytes, size_t length);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_
