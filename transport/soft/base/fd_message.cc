#include "transport/soft/base/fd_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

// Room for the descriptors that are sent, and room for all that a message can
// bring: the kernel closes those that find no room, on the thread that
// receives.
constexpr size_t kRightsMax = 253;
template <size_t kBytes>
union ControlBuffer {
  cmsghdr header;  // For the alignment.
  char space[kBytes];
};
using SentControl = ControlBuffer<CMSG_SPACE(sizeof(int) * kFdsMax)>;
using ReceivedControl = ControlBuffer<CMSG_SPACE(sizeof(int) * kRightsMax) +
                                      CMSG_SPACE(sizeof(ucred))>;

void TakeDescriptors(const cmsghdr* control, FdMessage& message) {
  const size_t bytes = control->cmsg_len - CMSG_LEN(0);
  for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
    int number;
    std::memcpy(&number, CMSG_DATA(control) + at, sizeof(number));
    ForeignFd fd{base::UniqueFd(number)};
    // No correct peer sends more. The others are closed on the thread for that.
    if (message.fd_count < kFdsMax) {
      message.fds[message.fd_count++] = std::move(fd);
    } else {
      message.cut = true;
    }
  }
}

void TakeControl(msghdr& header, FdMessage& message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET) continue;
    if (control->cmsg_type == SCM_RIGHTS) TakeDescriptors(control, message);
    if (control->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      std::memcpy(&sender, CMSG_DATA(control), sizeof(sender));
      message.sender = sender.uid;
    }
  }
}

ssize_t Receive(int socket, msghdr& header, int flags) {
  ssize_t length;
  do {
    length = ::recvmsg(socket, &header, flags | MSG_DONTWAIT);
    // A reset is told once, and before the messages that came ahead of it.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  return length;
}

// Takes the descriptors and the sender of the next message, which stays in the
// socket. Returns 0 or an errno.
int PeekControl(int socket, FdMessage& message) {
  if (!ForeignFd::HasRoom()) return ENOBUFS;
  ReceivedControl control;
  msghdr header = {};
  header.msg_control = control.space;
  header.msg_controllen = sizeof(control.space);
  if (Receive(socket, header, MSG_PEEK | MSG_CMSG_CLOEXEC) < 0) return errno;
  TakeControl(header, message);
  return (header.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : 0;
}

}  // namespace

// Puts the message together with its descriptors, if there are any, and with
// the name that it is for. A message to the socket's peer never waits; one to a
// name waits if the socket is in blocking mode.
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
  SentControl control = {};
  size_t count = 0;
  while (count < kFdsMax && fds[count] >= 0) ++count;
  if (count != 0) {
    header.msg_control = control.space;
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

// Takes up to three steps. The first looks at the bytes, and whether there is
// more. The second looks at the descriptors, which gives this process its own
// of each. The third removes the message: that closes the descriptors in it, at
// once, because they are not the last ones any more.
FdMessage ReceiveFdMessage(int socket, void* bytes, size_t length) {
  iovec part = {.iov_base = bytes, .iov_len = length};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  FdMessage message;
  message.length = Receive(socket, header, MSG_PEEK);
  if (message.length < 0) {
    message.error = errno;
    return message;
  }
  message.cut = (header.msg_flags & MSG_TRUNC) != 0;
  const bool brings_more = (header.msg_flags & MSG_CTRUNC) != 0;
  message.end = message.length == 0 && !brings_more;
  if (message.end) return message;
  if (brings_more) {
    if (const int error = PeekControl(socket, message); error != 0) {
      FdMessage later;
      later.length = -1;
      later.error = error;
      return later;
    }
  }
  msghdr nothing = {};
  static_cast<void>(Receive(socket, nothing, 0));
  return message;
}

}  // namespace verbena::soft
