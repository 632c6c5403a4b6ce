// How a verb that returns an object refuses to make it.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_REFUSE_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_REFUSE_H_

#include <cerrno>

namespace verbena::soft {

// Sets errno and returns null.
template <typename T>
T* Refuse(int error) {
  errno = error;
  return nullptr;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_REFUSE_H_
