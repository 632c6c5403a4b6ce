// Names in the abstract name space of Unix sockets, as the socket calls take
// them.

#ifndef VERBENA_TRANSPORT_SOFT_UNIX_NAME_H_
#define VERBENA_TRANSPORT_SOFT_UNIX_NAME_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace verbena::soft {

class UnixName {
 public:
  // `name` begins with the zero byte of abstract names. Ours are far shorter
  // than sun_path; what does not fit is left out.
  explicit UnixName(std::string_view name) {
    const size_t bytes = std::min(name.size(), sizeof(address_.sun_path));
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, name.data(), bytes);
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes);
  }

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  socklen_t length() const { return length_; }

 private:
  sockaddr_un address_ = {};
  socklen_t length_ = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_UNIX_NAME_H_
