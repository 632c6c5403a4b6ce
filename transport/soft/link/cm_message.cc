#include "transport/soft/link/cm_message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "transport/soft/base/fd_message.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {
namespace {

static_assert(std::is_trivially_copyable_v<CmMessage>);

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
  return SendFdMessage(socket, &message, sizeof(message), {fd_to_pass, -1});
}

// Finds out by the length what has come. A message is copied out only if its
// length, its version and its type are right, and it brings one descriptor at
// most.
CmReceived ReceiveCmMessage(int socket) {
  // Holds one byte more than the longest message, to notice a longer one.
  unsigned char bytes[sizeof(CmMessage) + 1];
  FdMessage received = ReceiveFdMessage(socket, bytes, sizeof(bytes));
  CmReceived result;
  if (received.length < 0) {
    // EMFILE: the message brought a descriptor for which this process has no
    // room.
    result.lost_fd = received.error == EMFILE;
    result.kind = received.error == EAGAIN    ? CmReceived::Kind::kNothing
                  : received.error == ENOBUFS ? CmReceived::Kind::kLater
                  : result.lost_fd            ? CmReceived::Kind::kGarbage
                                              : CmReceived::Kind::kEnd;
    return result;
  }
  if (received.end) {
    result.kind = CmReceived::Kind::kEnd;
    return result;
  }
  if (received.length == 1 && bytes[0] == kDoorbell && received.fd_count == 0) {
    result.kind = CmReceived::Kind::kDoorbell;
    return result;
  }
  result.kind = CmReceived::Kind::kGarbage;
  if (received.length == sizeof(CmMessage) && received.fd_count <= 1 &&
      !received.cut) {
    std::memcpy(&result.message, bytes, sizeof(CmMessage));
    if (IsKnown(result.message)) {
      result.kind = CmReceived::Kind::kMessage;
      result.fd = std::move(received.fds[0]);
    }
  }
  return result;
}

}  // namespace verbena::soft
