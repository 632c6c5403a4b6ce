// How a verb that returns an errno value tells it in errno too.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_SETTING_ERRNO_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_SETTING_ERRNO_H_

#include <cerrno>

#include "absl/base/optimization.h"

namespace verbena::soft {

// A function that does what `kVerb` does, and sets errno when that fails, as
// the verbs of libibverbs do: many programs print errno and not the result.
// It stands in tables, where the arguments follow from the type of the entry.
template <auto kVerb, typename... Arguments>
int SettingErrno(Arguments... arguments) {
  const int error = kVerb(arguments...);
  if (ABSL_PREDICT_FALSE(error > 0)) {
    errno = error;
  }
  return error;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_SETTING_ERRNO_H_
