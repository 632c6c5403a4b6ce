#include "tools/gateway/unary_methods.h"

#include "absl/strings/match.h"

namespace verbena::gateway {
namespace {

// Words in the status with which HandlerCall::Begin() refuses a call of the
// wrong kind. If the server's version has other words, such calls end as they
// do without a gateway.
constexpr char kIsUnary[] = " does not stream by the server's .proto";
constexpr char kStreams[] = " streams by the server's .proto";

bool Says(const absl::Status& status, absl::string_view words) {
  return absl::IsUnimplemented(status) &&
         absl::StrContains(status.message(), words);
}

}  // namespace

bool UnaryMethods::Has(absl::string_view method) const {
  const base::MutexLock lock(mutex_);
  return methods_.contains(method);
}

void UnaryMethods::Add(absl::string_view method) {
  const base::MutexLock lock(mutex_);
  // A server that answers to all names would otherwise let clients fill the
  // set.
  if (methods_.size() < kMost) methods_.emplace(method);
}

void UnaryMethods::Remove(absl::string_view method) {
  const base::MutexLock lock(mutex_);
  methods_.erase(method);
}

bool UnaryMethods::IsUnaryAfterAll(const absl::Status& status) {
  return Says(status, kIsUnary);
}

bool UnaryMethods::StreamsAfterAll(const absl::Status& status) {
  return Says(status, kStreams);
}

}  // namespace verbena::gateway
