// For tests: what another user of this host does.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_OTHER_USER_H_
#define VERBENA_TRANSPORT_SOFT_BASE_OTHER_USER_H_

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "transport/base/check.h"

namespace verbena::soft {

inline constexpr uid_t kOtherUserId = 54321;

// Whether this process may pretend to be another user.
inline bool CanBeOtherUser() { return ::geteuid() == 0; }

// As long as it lives the thread that made it is another user's. The other
// threads of the process stay what they are: libc's function would change all
// of them, so it makes the bare system call.
// REQUIRES: CanBeOtherUser().
class OtherUser {
 public:
  OtherUser() { Become(kOtherUserId); }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() { Become(0); }

 private:
  static void Become(uid_t user) {
    CHECK_EQ(::syscall(SYS_setresuid, user, user, 0), 0);
  }
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_OTHER_USER_H_
