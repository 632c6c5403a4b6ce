// The errno of a verb that fails because the process is out of descriptors.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_DESCRIPTOR_ERROR_H_
#define VERBENA_TRANSPORT_SOFT_BASE_DESCRIPTOR_ERROR_H_

#include <cerrno>

namespace verbena::soft {

// Returns errno if it says that the process, or the host, is out of
// descriptors, else `other`. The caller has set errno to 0 before it called
// what failed.
inline int DescriptorErrorOr(int other) {
  return errno == EMFILE || errno == ENFILE ? errno : other;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_DESCRIPTOR_ERROR_H_
