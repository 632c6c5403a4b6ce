#include "transport/soft/cm_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "transport/soft/link.h"

namespace verbena::soft {
namespace {

static_assert(std::is_trivially_copyable_v<CmMessage>);

// One descriptor. The kernel closes those that do not fit, and says so.
union ControlBuffer {
  cmsghdr header;  // For the alignment.
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Takes every descriptor out of `header`, so that none leaks. Returns how many
// there were; the last one is in `fd`.
int TakeDescriptors(msghdr& header, base::UniqueFd& fd) {
  int count = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t bytes = control->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int number;
      std::memcpy(&number, CMSG_DATA(control) + at, sizeof(number));
      fd = base::UniqueFd(number);
      ++count;
    }
  }
  return count;
}

bool IsKnown(const CmMessage& message) {
  return message.version == kCmVersion &&
         message.type >= CmMessageType::kConnectRequest &&
         message.type <= CmMessageType::kDisconnect;
}

}  // namespace

void CmMessage::SetDestination(const base::SocketAddress& address) {
  destination_family = static_cast<uint16_t>(address.family());
  destination_port = address.port();
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
    std::memcpy(destination_host.data(), &v4->sin_addr, sizeof(v4->sin_addr));
  } else if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    std::memcpy(destination_host.data(), &v6->sin6_addr, sizeof(v6->sin6_addr));
    destination_scope = v6->sin6_scope_id;
  }
}

base::SocketAddress CmMessage::Destination() const {
  base::SocketAddress result;
  if (destination_family == AF_INET) {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, destination_host.data(), sizeof(v4.sin_addr));
    result = base::SocketAddress::FromSockaddr(
        reinterpret_cast<const sockaddr*>(&v4));
  } else if (destination_family == AF_INET6) {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_scope_id = destination_scope;
    std::memcpy(&v6.sin6_addr, destination_host.data(), sizeof(v6.sin6_addr));
    result = base::SocketAddress::FromSockaddr(
        reinterpret_cast<const sockaddr*>(&v6));
  } else {
    return result;
  }
  result.set_port(destination_port);
  return result;
}

int SendCmMessage(int socket, const CmMessage& message, int fd_to_pass) {
  iovec part = {.iov_base = const_cast<CmMessage*>(&message),
                .iov_len = sizeof(message)};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control = {};
  if (fd_to_pass >= 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd_to_pass, sizeof(fd_to_pass));
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

CmReceived ReceiveCmMessage(int socket) {
  // One byte more than the longest message, to notice a longer one.
  unsigned char bytes[sizeof(CmMessage) + 1];
  iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
  CmReceived result;
  ssize_t length;
  msghdr header;
  ControlBuffer control;
  do {
    header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof(control.bytes);
    length = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A reset is told once, and before the messages that came ahead of it.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0) {
    result.kind =
        errno == EAGAIN ? CmReceived::Kind::kNothing : CmReceived::Kind::kEnd;
    return result;
  }
  const int descriptors = TakeDescriptors(header, result.fd);
  if (length == 0 && descriptors == 0) {
    result.kind = CmReceived::Kind::kEnd;
    return result;
  }
  if (length == 1 && bytes[0] == kDoorbell && descriptors == 0) {
    result.kind = CmReceived::Kind::kDoorbell;
    return result;
  }
  result.kind = CmReceived::Kind::kGarbage;
  if (length == sizeof(CmMessage) && descriptors <= 1 &&
      (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
    std::memcpy(&result.message, bytes, sizeof(CmMessage));
    if (IsKnown(result.message)) {
      result.kind = CmReceived::Kind::kMessage;
      return result;
    }
  }
  result.fd.Reset();
  return result;
}

}  // namespace verbena::soft
