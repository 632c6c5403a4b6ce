#include "rpc/internal/service/json_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

using google::protobuf::Value;

// As much of a wrong value as a message shows.
constexpr size_t kShownBytes = 80;

}  // namespace

absl::StatusOr<Value> JsonValue::ParseObject(absl::string_view text) {
  Value value;
  const auto status = google::protobuf::util::JsonStringToMessage(
      {text.data(), text.size()}, &value);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON: ", status.message().ToString()));
  }
  if (!value.has_struct_value()) {
    return JsonValue(value, "the document").MustBe("an object");
  }
  return value;
}

absl::Status JsonValue::MustBe(absl::string_view what) const {
  std::string shown = Json();
  if (shown.size() > kShownBytes) {
    shown.resize(kShownBytes);
    shown += "...";
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path_, " is ", shown, ", but must be ", what));
}

JsonValue JsonValue::Child(const Value& value, absl::string_view name) const {
  return JsonValue(value, absl::StrCat(path_, path_.empty() ? "" : ".", name));
}

absl::StatusOr<std::optional<JsonValue>> JsonValue::Field(
    absl::string_view name) const {
  if (!value_->has_struct_value()) return MustBe("an object");
  const auto& fields = value_->struct_value().fields();
  const auto found = fields.find(std::string(name));
  if (found == fields.end() || found->second.has_null_value()) {
    return std::optional<JsonValue>();
  }
  return std::optional<JsonValue>(Child(found->second, name));
}

absl::StatusOr<std::string> JsonValue::TextField(absl::string_view name) const {
  ASSIGN_OR_RETURN(const std::optional<JsonValue> field, Field(name));
  if (!field.has_value()) return std::string();
  return field->String();
}

absl::StatusOr<std::vector<std::string>> JsonValue::Names() const {
  if (!value_->has_struct_value()) return MustBe("an object");
  std::vector<std::string> names;
  for (const auto& [name, unused] : value_->struct_value().fields()) {
    names.push_back(name);
  }
  return names;
}

absl::StatusOr<std::vector<JsonValue>> JsonValue::Elements() const {
  if (!value_->has_list_value()) return MustBe("a list");
  std::vector<JsonValue> elements;
  for (const Value& value : value_->list_value().values()) {
    elements.push_back(
        JsonValue(value, absl::StrCat(path_, "[", elements.size(), "]")));
  }
  return elements;
}

absl::StatusOr<bool> JsonValue::Bool() const {
  if (!value_->has_bool_value()) return MustBe("true or false");
  return value_->bool_value();
}

absl::StatusOr<std::string> JsonValue::String() const {
  if (!value_->has_string_value()) return MustBe("a text in quotes");
  return value_->string_value();
}

absl::StatusOr<double> JsonValue::Number() const {
  if (value_->has_number_value()) return value_->number_value();
  double number;
  const std::string& text = value_->string_value();
  // Without "0x10", "inf" and "nan".
  if (!value_->has_string_value() ||
      text.find_first_not_of("0123456789+-.eE ") != std::string::npos ||
      !absl::SimpleAtod(text, &number) || !std::isfinite(number)) {
    return MustBe("a number");
  }
  return number;
}

absl::StatusOr<uint64_t> JsonValue::Integer(uint64_t least,
                                            uint64_t most) const {
  const absl::StatusOr<double> number = Number();
  // Both bounds are below 2^53, up to which a double is exact.
  if (!number.ok() || *number != std::floor(*number) ||
      *number < static_cast<double>(least) ||
      *number > static_cast<double>(most)) {
    return MustBe(absl::StrCat("an integer from ", least, " to ", most));
  }
  return static_cast<uint64_t>(*number);
}

// As in protobuf: a number of seconds, with up to nine decimals, and an "s".
absl::StatusOr<absl::Duration> JsonValue::Duration() const {
  constexpr char kDigits[] = "0123456789";
  constexpr size_t kMostDecimals = 9;
  constexpr absl::Duration kLongest = absl::Seconds(315'576'000'000);
  const std::string& text = value_->string_value();
  const size_t whole = std::min(text.find_first_not_of(kDigits), text.size());
  size_t end = whole;
  if (absl::StartsWith(text.substr(whole), ".")) {
    end = std::min(text.find_first_not_of(kDigits, whole + 1), text.size());
  }
  absl::Duration duration;
  if (whole == 0 || end == whole + 1 || end > whole + 1 + kMostDecimals ||
      text.substr(end) != "s" || !absl::ParseDuration(text, &duration) ||
      duration > kLongest) {
    return MustBe("a duration in seconds, such as \"0.25s\"");
  }
  return duration;
}

std::string JsonValue::Json() const {
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(*value_, &text);
  return status.ok() ? text : "not to be shown";
}

}  // namespace verbena::internal
