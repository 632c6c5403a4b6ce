// The version of Verbena.

#ifndef VERBENA_RPC_VERSION_H_
#define VERBENA_RPC_VERSION_H_

#include "absl/strings/string_view.h"

namespace verbena {

// MAJOR.MINOR.PATCH as in semantic versioning. The only place of the version;
// CHANGELOG.md says what each version brought.
inline constexpr absl::string_view kVersion = "0.1.0";

}  // namespace verbena

#endif  // VERBENA_RPC_VERSION_H_
