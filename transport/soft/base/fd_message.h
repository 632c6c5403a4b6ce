// Messages with descriptors on Unix sockets.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_
#define VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "transport/soft/base/foreign_fd.h"

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

// A message that was received. Its sender may be any process.
struct FdMessage {
  // Bytes received, no more than there was room for; negative with an errno.
  ssize_t length = 0;
  int error = 0;
  // There is no message, and never will be; length is 0. Without SO_PASSCRED an
  // empty message that brings nothing looks the same.
  bool end = false;
  bool cut = false;  // Some bytes or descriptors did not fit.
  size_t fd_count = 0;
  std::array<ForeignFd, kFdsMax> fds;
  // The user of the process that has sent it; known only on a socket with
  // SO_PASSCRED.
  std::optional<uid_t> sender;
};

// Never blocks, nor closes a descriptor itself, whatever was sent. If a message
// brings descriptors, and too many wait to be closed (ENOBUFS) or the process
// can have no more (EMFILE), it stays where it is.
FdMessage ReceiveFdMessage(int socket, void* bytes, size_t length);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_FD_MESSAGE_H_
