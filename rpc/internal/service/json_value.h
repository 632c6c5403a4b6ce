// A value in a JSON document that remembers where it stands.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_JSON_VALUE_H_
#define VERBENA_RPC_INTERNAL_SERVICE_JSON_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/struct.pb.h"

namespace verbena::internal {

// Reads as protobuf's JSON mapping has it: numbers may stand in quotes, and
// durations are texts such as "1.5s". Refers to the document, which must live
// longer.
class JsonValue {
 public:
  // Reads a document, which must be an object.
  static absl::StatusOr<google::protobuf::Value> ParseObject(
      absl::string_view text);

  JsonValue(const google::protobuf::Value& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  // The field of an object; nothing if there is none, or if it is null. An
  // error if this is no object.
  absl::StatusOr<std::optional<JsonValue>> Field(absl::string_view name) const;
  // The text of a field of an object; empty if there is no such field.
  absl::StatusOr<std::string> TextField(absl::string_view name) const;
  // The elements of a list.
  absl::StatusOr<std::vector<JsonValue>> Elements() const;
  // The names of an object's fields.
  absl::StatusOr<std::vector<std::string>> Names() const;

  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<double> Number() const;
  // An integer in the range.
  absl::StatusOr<uint64_t> Integer(uint64_t least, uint64_t most) const;
  absl::StatusOr<absl::Duration> Duration() const;

  // The value as JSON.
  std::string Json() const;
  const std::string& path() const { return path_; }
  // INVALID_ARGUMENT: "`path` is `value`, but must be `what`".
  absl::Status MustBe(absl::string_view what) const;

 private:
  JsonValue Child(const google::protobuf::Value& value,
                  absl::string_view name) const;

  const google::protobuf::Value* value_;
  std::string path_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_JSON_VALUE_H_
