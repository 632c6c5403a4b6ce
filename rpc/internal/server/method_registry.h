// Maps the number of a method on the wire to the Method that answers it.

#ifndef VERBENA_RPC_INTERNAL_SERVER_METHOD_REGISTRY_H_
#define VERBENA_RPC_INTERNAL_SERVER_METHOD_REGISTRY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "rpc/generic_service.h"
#include "rpc/service.h"
#include "rpc/support/method.h"

namespace verbena::internal {

// The methods of a server. Filled before the server starts, by one thread; then
// any number of threads may look up. The services must outlive it.
class MethodRegistry {
 public:
  struct Method {
    const internal::Method* method = nullptr;
    HandlerMode mode = HandlerMode::kWorkerPool;
    int index = 0;         // 0 for the first one added, and so on.
    bool streams = false;  // Copy of method->streams().
  };

  // Adds every method of `service`. ALREADY_EXISTS if one of them is there
  // already, or has the number of another: the registry is of no use then.
  absl::Status AddService(const Service& service, HandlerMode default_mode);

  // Adds one method under a number of the caller's choice.
  absl::Status AddMethod(uint64_t id, const internal::Method* method,
                         HandlerMode mode);

  // Has `service` answer what Find() does not find; at most once.
  void AddGeneric(const GenericService& service, HandlerMode default_mode);

  // Returns the method of the generic service, for a call that Find() has found
  // no method for; null if there is no generic service.
  const Method* FindGeneric(bool streams) const {
    const Method& method = streams ? generic_stream_ : generic_unary_;
    return method.method == nullptr ? nullptr : &method;
  }

  // Null if there is none. Valid as long as nothing is added.
  const Method* Find(uint64_t id) const {
    const Direct& direct = direct_[id % kDirect];
    if (direct.id == id && direct.method.method != nullptr) {
      return &direct.method;
    }
    const auto found = methods_.find(id);
    return found == methods_.end() ? nullptr : &found->second;
  }

  // All of them, by index.
  const std::vector<const internal::Method*>& all() const { return all_; }
  // Returns the number of methods, including those of a generic service.
  int size() const { return static_cast<int>(all_.size()); }

 private:
  // Most methods are found here with one look.
  struct Direct {
    uint64_t id = 0;
    Method method;
  };
  static constexpr size_t kDirect = 64;

  // Gives it the next index.
  Method Number(const internal::Method* method, HandlerMode mode);

  std::array<Direct, kDirect> direct_;  // By the low bits of the number.
  absl::flat_hash_map<uint64_t, Method> methods_;  // By MethodHash().
  Method generic_unary_;
  Method generic_stream_;
  std::vector<const internal::Method*> all_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_METHOD_REGISTRY_H_
