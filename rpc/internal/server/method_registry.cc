#include "rpc/internal/server/method_registry.h"

#include "absl/strings/str_cat.h"
#include "proto/method_hash.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// Handlers that read a stream block, unless they are told of each message.
HandlerMode ModeOf(const internal::Method& method, HandlerMode mode) {
  if (method.asynchronous()) return HandlerMode::kInline;
  return method.streams() ? HandlerMode::kWorkerPool : mode;
}

}  // namespace

absl::Status MethodRegistry::AddService(const Service& service,
                                        HandlerMode default_mode) {
  const HandlerMode mode = service.handler_mode().value_or(default_mode);
  for (const auto& method : service.methods_) {
    RETURN_IF_ERROR(AddMethod(MethodHash(method->full_name()), method.get(),
                              ModeOf(*method, mode)));
  }
  return absl::OkStatus();
}

void MethodRegistry::AddGeneric(const GenericService& service,
                                HandlerMode default_mode) {
  const internal::Method& unary = *service.unary_method_;
  const internal::Method& streaming = *service.streaming_method_;
  generic_unary_ = Number(
      &unary, ModeOf(unary, service.handler_mode().value_or(default_mode)));
  generic_stream_ =
      Number(&streaming, ModeOf(streaming, HandlerMode::kWorkerPool));
}

MethodRegistry::Method MethodRegistry::Number(const internal::Method* method,
                                              HandlerMode mode) {
  all_.push_back(method);
  return {method, mode, size() - 1, method->streams()};
}

// Adds the method, or says why its number is taken: registered twice, or a hash
// that two names share.
absl::Status MethodRegistry::AddMethod(uint64_t id,
                                       const internal::Method* method,
                                       HandlerMode mode) {
  const auto [place, inserted] = methods_.try_emplace(id);
  if (inserted) {
    place->second = Number(method, mode);
    Direct& direct = direct_[id % kDirect];
    // The first method keeps the direct entry. Others with the same low bits
    // are found in the map.
    if (direct.method.method == nullptr) direct = {id, place->second};
    return absl::OkStatus();
  }
  const std::string& other = place->second.method->full_name();
  if (other == method->full_name()) {
    return absl::AlreadyExistsError(
        absl::StrCat("method ", other, " is registered twice"));
  }
  return absl::AlreadyExistsError(
      absl::StrCat("methods ", other, " and ", method->full_name(),
                   " have the same hash, so calls can't tell them apart: "
                   "rename one, or serve "
                   "them by two servers"));
}

}  // namespace verbena::internal
