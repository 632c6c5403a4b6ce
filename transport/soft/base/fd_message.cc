#include "transport/soft/base/fd_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

// The kernel closes descriptors that do not fit, and says so.
union ControlBuffer {
  cmsghdr header;  // For the alignment.
  char bytes[CMSG_SPACE(sizeof(int) * kFdsMax)];
};

void TakeDescriptors(msghdr& header, FdMessage& message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t bytes = control->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int number;
      std::memcpy(&number, CMSG_DATA(control) + at, sizeof(number));
      base::UniqueFd fd(number);
      if (message.fd_count < kFdsMax) {
        message.fds[message.fd_count++] = std::move(fd);
      } else {
        message.cut = true;
      }
    }
  }
}

}  // namespace

int SendFdMessage(int socket, const void* bytes, size_t length, FdsToPass fds,
                  std::string_view to) {
  iovec part = {.iov_base = const_cast<void*>(bytes), .iov_len = length};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const UnixName name(to);
  if (!to.empty()) {
    header.msg_name = const_cast<sockaddr*>(name.get());
    header.msg_namelen = name.length();
  }
  ControlBuffer control = {};
  size_t count = 0;
  while (count < kFdsMax && fds[count] >= 0) ++count;
  if (count != 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * count);
  }
  const int flags = to.empty() ? MSG_NOSIGNAL | MSG_DONTWAIT : MSG_NOSIGNAL;
  while (::sendmsg(socket, &header, flags) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

FdMessage ReceiveFdMessage(int socket, void* bytes, size_t length) {
  iovec part = {.iov_base = bytes, .iov_len = length};
  FdMessage message;
  msghdr header;
  ControlBuffer control;
  do {
    header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    message.length =
        ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A reset is told once, and before the messages that came ahead of it.
  } while (message.length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (message.length < 0) {
    message.error = errno;
    return message;
  }
  TakeDescriptors(header, message);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) message.cut = true;
  return message;
}

}  // namespace verbena::soft
