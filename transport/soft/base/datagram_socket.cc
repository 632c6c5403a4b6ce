#include "transport/soft/base/datagram_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

constexpr char kPrefix[] = "verbena-soft-datagram/";

// The bytes that one socket may have under way. A slow receiver can hold back
// some ten datagrams, and must not thereby stop those that go to others. The
// kernel lowers the number to net.core.wmem_max.
constexpr int kSendBufferBytes = 4 << 20;

// SO_PASSRIGHTS, which headers before Linux 6.16 lack: whether a message may
// bring descriptors. Nobody asks for any here, and to receive one would be to
// close it, which can take long (foreign_fd.h). An older kernel cannot be told.
constexpr int kPassRights = 83;

UnixName NameOf(const std::string& text) {
  return UnixName(std::string(1, '\0') + kPrefix + text);
}

int OpenNamed(const std::string& text, base::UniqueFd& socket) {
  base::UniqueFd opened;
  if (const int error = OpenDatagramSender(opened); error != 0) return error;
  const UnixName name = NameOf(text);
  if (::bind(opened.get(), name.get(), name.length()) != 0) return errno;
  socket = std::move(opened);
  return 0;
}

int SendToName(int socket, const UnixName& name, const iovec* parts,
               int count) {
  msghdr message = {};
  message.msg_name = const_cast<sockaddr*>(name.get());
  message.msg_namelen = name.length();
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  while (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    // A lack of buffers passes, as a full queue does.
    if (errno != EINTR) return errno == ENOBUFS ? EAGAIN : errno;
  }
  return 0;
}

}  // namespace

int OpenDatagramSender(base::UniqueFd& socket) {
  socket = base::UniqueFd(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  // If this fails there is only less room.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
               sizeof(kSendBufferBytes));
  const int no = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, kPassRights, &no, sizeof(no));
  return 0;
}

int OpenDatagramSocket(uint32_t number, base::UniqueFd& socket) {
  return OpenNamed(std::to_string(number), socket);
}

int OpenRoleSocket(const std::string& role, base::UniqueFd& socket) {
  return OpenNamed("role/" + role, socket);
}

int SendToQueuePair(int socket, uint32_t number, const iovec* parts,
                    int count) {
  return SendToName(socket, NameOf(std::to_string(number)), parts, count);
}

int SendToRole(int socket, const std::string& role, const iovec* parts,
               int count) {
  return SendToName(socket, NameOf("role/" + role), parts, count);
}

ssize_t ReceiveDatagram(int socket, std::byte* bytes, size_t capacity) {
  for (;;) {
    const ssize_t length =
        ::recv(socket, bytes, capacity, MSG_DONTWAIT | MSG_TRUNC);
    if (length >= 0 || errno != EINTR) return length;
  }
}

}  // namespace verbena::soft
