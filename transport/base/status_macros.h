// The two control-flow macros of this code base.

#ifndef VERBENA_TRANSPORT_BASE_STATUS_MACROS_H_
#define VERBENA_TRANSPORT_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when `expression`, an absl::Status, is an
// error.
#define RETURN_IF_ERROR(expression)                     \
  do {                                                  \
    if (absl::Status status_macro_value = (expression); \
        !status_macro_value.ok())                       \
      return status_macro_value;                        \
  } while (false)

#define VERBENA_STATUS_CONCAT_INNER(a, b) a##b
#define VERBENA_STATUS_CONCAT(a, b) VERBENA_STATUS_CONCAT_INNER(a, b)
#define VERBENA_ASSIGN_OR_RETURN(result, lhs, expression) \
  auto result = (expression);                             \
  if (!result.ok()) return std::move(result).status();    \
  lhs = *std::move(result)

// Assigns the value of `expression`, an absl::StatusOr<T>, to `lhs`, or returns
// its error. `lhs` may declare a variable.
#define ASSIGN_OR_RETURN(lhs, expression) \
  VERBENA_ASSIGN_OR_RETURN(               \
      VERBENA_STATUS_CONCAT(status_or_value_, __COUNTER__), lhs, expression)

#endif  // VERBENA_TRANSPORT_BASE_STATUS_MACROS_H_
