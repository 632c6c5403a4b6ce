#include "transport/soft/base/waiter_bell.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

// All names begin so: a peer that lies about the name of its bell can have us
// ring another bell, but send nothing to any other program's socket.
constexpr char kPrefix[] = "verbena-soft-bell/";

// Does not allocate, because every call that wakes its server makes a name.
UnixName NameOf(const WaiterBell::Name& name) {
  constexpr size_t kDigits = 16;
  char text[sizeof(kPrefix) + 2 * kDigits] = {};  // Begins with a zero byte.
  char* end = std::copy_n(kPrefix, sizeof(kPrefix) - 1, text + 1);
  for (const uint64_t half : {name.high, name.low}) {
    for (size_t i = 0; i < kDigits; ++i) {
      *end++ = "0123456789abcdef"[(half >> (60 - 4 * i)) & 0xf];
    }
  }
  return UnixName(std::string_view(text, sizeof(text)));
}

// The socket that this process rings all bells with; -1 if it was out of
// descriptors when it first needed one. It has room for many rings: each counts
// until it is taken, and a program that is stopped takes none.
int RingingSocket() {
  static const int socket = [] {
    base::UniqueFd opened;
    OpenDatagramSender(opened);
    return opened.Release();
  }();
  return socket;
}

bool SendRing(int socket, const WaiterBell::Name& name,
              const WaiterBell::Ring& ring) {
  const UnixName to = NameOf(name);
  return ::sendto(socket, &ring, sizeof(ring), MSG_DONTWAIT | MSG_NOSIGNAL,
                  to.get(), to.length()) == sizeof(ring);
}

}  // namespace

std::unique_ptr<WaiterBell> WaiterBell::Create() {
  Name name;
  if (::getrandom(&name, sizeof(name), 0) != sizeof(name)) return nullptr;
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return nullptr;
  const UnixName own = NameOf(name);
  if (::bind(socket.get(), own.get(), own.length()) != 0) return nullptr;
  // A process that has a bell also rings the bells of others, which takes one
  // more socket. The socket is made now: later it could take the descriptor
  // that a server at its limit needs to refuse clients. RingingSocket() tries
  // only once, so dup() finds out first whether there is a descriptor for it.
  if (!base::UniqueFd(::dup(socket.get())).valid()) return nullptr;
  RingingSocket();
  return std::unique_ptr<WaiterBell>(new WaiterBell(std::move(socket), name));
}

bool WaiterBell::RingByName(const Name& name, const Ring& ring) {
  return RingingSocket() >= 0 && SendRing(RingingSocket(), name, ring);
}

// The bell's own socket sends the ring, so no other descriptor is needed.
bool WaiterBell::RingOwn() const { return SendRing(fd(), name_, Ring()); }

bool WaiterBell::Take(Ring& ring) const { return Take(ring, 0); }

bool WaiterBell::TryTake(Ring& ring) const { return Take(ring, MSG_DONTWAIT); }

bool WaiterBell::Take(Ring& ring, int flags) const {
  // MSG_TRUNC makes the kernel return the whole length, so that a longer
  // datagram is no ring either.
  const ssize_t got = ::recv(fd(), &ring, sizeof(ring), MSG_TRUNC | flags);
  if (got != sizeof(ring)) ring = {0, kNobody};
  return got >= 0;
}

}  // namespace verbena::soft
