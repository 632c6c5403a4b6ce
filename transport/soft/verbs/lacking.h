// How a verb that the device does not have is refused.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_LACKING_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_LACKING_H_

#include <cerrno>
#include <type_traits>

namespace verbena::soft {

// A function that fails with EOPNOTSUPP, which it returns as `kRefusal` if it
// returns a number. It is an entry of tables: the type of the entry gives the
// result and the arguments.
template <int kRefusal = EOPNOTSUPP, typename Result, typename... Arguments>
Result Lacking(Arguments...) {
  errno = EOPNOTSUPP;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else if constexpr (!std::is_void_v<Result>) {
    return kRefusal;
  }
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_LACKING_H_
