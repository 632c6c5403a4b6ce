// The ownership that all owners of verbs objects share.

#ifndef VERBENA_TRANSPORT_VERBS_VERBS_HANDLE_H_
#define VERBENA_TRANSPORT_VERBS_VERBS_HANDLE_H_

#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/verbs/error.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// A move-only owner of one verbs object of type T, destroyed by the table entry
// `kDestroy`. The table must outlive it. What the object was made from must
// outlive it too, and what was made from it must be gone first: a destroy verb
// that fails aborts, because the device might still write to memory that is
// about to be freed. EIO is no such failure: see IsGone().
//
// Not thread-safe.
template <typename T, int (*VerbsOps::*kDestroy)(T*)>
class VerbsHandle {
 public:
  VerbsHandle() = default;
  VerbsHandle(const VerbsOps& ops, T* object) : ops_(&ops), object_(object) {}
  VerbsHandle(VerbsHandle&& other) noexcept
      : ops_(other.ops_), object_(std::exchange(other.object_, nullptr)) {}
  VerbsHandle& operator=(VerbsHandle&& other) noexcept {
    if (this != &other) {
      Reset();
      ops_ = other.ops_;
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~VerbsHandle() { Reset(); }

  // Null only when default-constructed or moved from.
  T* get() const { return object_; }
  const VerbsOps& ops() const { return *ops_; }

 private:
  void Reset() {
    if (object_ == nullptr) return;
    const int error = (ops_->*kDestroy)(object_);
    CHECK(error == 0 || IsGone(error))
        << "a verbs object was destroyed while in use: "
        << std::strerror(error);
    object_ = nullptr;
  }

  const VerbsOps* ops_ = nullptr;
  T* object_ = nullptr;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_VERBS_HANDLE_H_
