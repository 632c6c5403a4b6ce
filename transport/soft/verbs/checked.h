// How verbs treat handles that are not, or no longer, the device's.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_CHECKED_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_CHECKED_H_

#include <cerrno>
#include <type_traits>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/verbs/setting_errno.h"

namespace verbena::soft {

// A function that does what `kVerb` does, unless the object that it is about,
// its first argument, is not live: then it fails with EINVAL, which it returns
// as `kRefusal` if it returns a number. What a verb returns as a number is told
// as SettingErrno() does.
//
// Checked() is an entry of tables. The type of the entry gives the arguments.
template <auto kVerb, int kRefusal = EINVAL, typename Handle,
          typename... Arguments>
auto Checked(Handle* handle, Arguments... arguments)
    -> decltype(kVerb(handle, arguments...)) {
  using Result = decltype(kVerb(handle, arguments...));
  if (!IsLive(handle)) {
    errno = EINVAL;
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else if constexpr (std::is_void_v<Result>) {
      return;
    } else {
      return kRefusal;
    }
  }
  if constexpr (std::is_same_v<Result, int>) {
    return SettingErrno<kVerb>(handle, arguments...);
  } else {
    return kVerb(handle, arguments...);
  }
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_CHECKED_H_
