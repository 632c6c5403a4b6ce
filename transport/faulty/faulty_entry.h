// Makes the wrapper of one entry of a provider's tables.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_ENTRY_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_ENTRY_H_

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <tuple>
#include <type_traits>

#include "transport/faulty/faulty_state.h"
#include "transport/verbs/cm_ops.h"
#include "transport/verbs/provider.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// A name as a template argument.
template <size_t kBytes>
struct EntryName {
  // Implicit, so that a literal can be the template argument.
  constexpr EntryName(  // NOLINT(google-explicit-constructor)
      const char (&from)[kBytes]) {
    std::copy_n(from, kBytes, text);
  }
  char text[kBytes];
};

// How an entry says that it has failed: by the errno, or by -1 with errno set.
// An entry that returns a pointer returns null and sets errno.
enum class FailsWith { kErrno, kMinusOne };

inline const VerbsOps& TableOf(const Provider& provider, const VerbsOps*) {
  return provider.verbs;
}
inline const CmOps& TableOf(const Provider& provider, const CmOps*) {
  return provider.cm;
}

// Whether an entry makes or ends one of the objects that FaultyState counts. If
// it makes one, it returns a pointer to the object. If it ends one, the object
// is its first argument.
enum class Objects { kUntouched, kMakes, kEnds };

// Entry<"reg_mr", &VerbsOps::reg_mr, ...>::Call does what the plan says, and
// otherwise calls reg_mr of the provider below. kMayFail is the `may_fail` of
// FaultPlan::OnCall().
template <EntryName kName, auto kEntry, FailsWith kFailsWith, bool kMayFail,
          Objects kObjects = Objects::kUntouched>
struct Entry;

template <EntryName kName, typename Table, typename Result,
          typename... Arguments, Result (*Table::*kEntry)(Arguments...),
          FailsWith kFailsWith, bool kMayFail, Objects kObjects>
struct Entry<kName, kEntry, kFailsWith, kMayFail, kObjects> {
  static Result Call(Arguments... arguments) {
    FaultyState& state = FaultyState::Get();
    constexpr bool kIsVerb = std::is_same_v<Table, VerbsOps>;
    constexpr bool kEnds = kObjects == Objects::kEnds;
    const int error = kIsVerb && !kEnds ? state.OnVerb(kName.text, kMayFail)
                                        : state.OnCall(kName.text, kMayFail);
    const Table& table =
        TableOf(state.base(), static_cast<const Table*>(nullptr));
    if constexpr (std::is_integral_v<Result> && std::is_signed_v<Result>) {
      if (error != 0 && kFailsWith == FailsWith::kErrno) return error;
      if (error != 0) {
        errno = error;
        return -1;
      }
    } else if constexpr (std::is_pointer_v<Result>) {
      if (error != 0) {
        errno = error;
        return nullptr;
      }
    }
    if constexpr (kObjects == Objects::kMakes) {
      const Result made = (table.*kEntry)(arguments...);
      if (made != nullptr) state.Own(made);
      return made;
    } else if constexpr (kObjects == Objects::kEnds) {
      // The object is disowned before it ends, because another may have its
      // address at once. If it does not end after all, it is owned again.
      auto* const object = std::get<0>(std::tuple(arguments...));
      const bool owned = state.Disown(object);
      const Result result = (table.*kEntry)(arguments...);
      if (result != 0 && owned) {
        if constexpr (std::is_same_v<decltype(object), ibv_qp* const>) {
          state.OwnQueuePair(object);
        } else {
          state.Own(object);
        }
      }
      // The kernel has destroyed it with the device, and says only that.
      return kIsVerb && result == 0 && state.DeviceIsGone() ? EIO : result;
    } else {
      return (table.*kEntry)(arguments...);
    }
  }
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_ENTRY_H_
