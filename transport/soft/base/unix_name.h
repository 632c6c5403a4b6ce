// Names in the abstract name space of Unix sockets, as the socket calls take
// them.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_UNIX_NAME_H_
#define VERBENA_TRANSPORT_SOFT_BASE_UNIX_NAME_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

namespace verbena::soft {

class UnixName {
 public:
  // `name` begins with the zero byte of abstract names. Ours are far shorter
  // than sun_path; what does not fit is left out.
  explicit UnixName(std::string_view name) {
    address_.sun_family = AF_UNIX;
    const size_t bytes =
        name.copy(address_.sun_path, sizeof(address_.sun_path));
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

#endif  // VERBENA_TRANSPORT_SOFT_BASE_UNIX_NAME_H_
