#include "transport/soft/cm/network_of_own.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "transport/base/check.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {
namespace {

void SetOfLoopback(unsigned long what, ifreq request, const char* name) {
  const base::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  CHECK_EQ(::ioctl(socket.get(), what, &request), 0) << "errno " << errno;
}

ifreq WithAddress(const char* text) {
  ifreq request = {};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  CHECK_EQ(inet_pton(AF_INET, text, &address.sin_addr), 1);
  std::memcpy(&request.ifr_addr, &address, sizeof(address));
  return request;
}

}  // namespace

base::SocketAddress OtherHost(uint16_t port) {
  base::SocketAddress address =
      *base::SocketAddress::ParseNumeric("10.78.0.2:1");
  address.set_port(port);
  return address;
}

void EnterNetworkOfOurOwn() {
  // Without privilege it takes a user name space, too.
  if (::unshare(CLONE_NEWNET) != 0) {
    CHECK_EQ(::unshare(CLONE_NEWUSER | CLONE_NEWNET), 0)
        << "no network name space can be had: errno " << errno;
  }
  ifreq up = {};
  up.ifr_flags = IFF_UP;
  SetOfLoopback(SIOCSIFFLAGS, up, "lo");
  SetOfLoopback(SIOCSIFADDR, WithAddress(kOwnAddress), "lo:1");
  SetOfLoopback(SIOCSIFNETMASK, WithAddress("255.255.255.0"), "lo:1");
}

}  // namespace verbena::soft
