#include "transport/soft/datagram/cm_datagram.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/ephemeral_port.h"

namespace verbena::soft {
namespace {

std::string RoleOf(const base::SocketAddress& address) {
  return "cm/" + address.ToString();
}

}  // namespace

void CmDatagram::SetEnds(const base::SocketAddress& from,
                         const base::SocketAddress& to) {
  source = GidOf(from);
  source_port = htons(from.port());
  destination = GidOf(to);
  destination_port = htons(to.port());
}

base::SocketAddress CmDatagram::Source() const {
  return AddressOf(source, ntohs(source_port));
}

base::SocketAddress CmDatagram::Destination() const {
  return AddressOf(destination, ntohs(destination_port));
}

// Without a port, draws one until the name is free.
int OpenCmDatagramSocket(base::SocketAddress& address, base::UniqueFd& socket) {
  if (address.port() != 0) return OpenRoleSocket(RoleOf(address), socket);
  base::SocketAddress candidate = address;
  for (int i = 0; i < kEphemeralTries; ++i) {
    candidate.set_port(RandomEphemeralPort());
    const int error = OpenRoleSocket(RoleOf(candidate), socket);
    if (error == 0) address = candidate;
    if (error != EADDRINUSE) return error;
  }
  return EADDRINUSE;
}

// Looks for the very address first, and then for the wildcards. The wildcard of
// IPv6 stands for IPv4 too.
int DeliverCmDatagram(const CmDatagram& datagram) {
  const base::UniqueFd sender(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!sender.valid()) return errno;
  const base::SocketAddress exact = datagram.Destination();
  if (exact.empty()) return EINVAL;
  const iovec part = {const_cast<CmDatagram*>(&datagram), sizeof(datagram)};
  int error = ECONNREFUSED;
  for (const base::SocketAddress& address :
       {exact, base::SocketAddress::Any(exact.family(), exact.port()),
        base::SocketAddress::Any(AF_INET6, exact.port())}) {
    error = SendToRole(sender.get(), RoleOf(address), &part, 1);
    if (error != ECONNREFUSED) break;
  }
  return error;
}

// Looks at both addresses, because the answer to a question needs both.
bool ReadCmDatagram(const std::byte* bytes, size_t length,
                    CmDatagram& datagram) {
  if (length != sizeof(datagram)) return false;
  std::memcpy(&datagram, bytes, sizeof(datagram));
  return datagram.magic == kCmDatagramMagic &&
         datagram.version == kCmDatagramVersion &&
         (datagram.type == CmDatagramType::kRequest ||
          datagram.type == CmDatagramType::kReply) &&
         !datagram.Source().empty() && !datagram.Destination().empty();
}

}  // namespace verbena::soft
