#include "tools/json/proto_json.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "transport/base/check.h"

namespace verbena::tool {

// Lets protobuf print the message, and adds the nulls of absent fields if the
// result is one line.
std::string ToJson(const google::protobuf::Message& message,
                   JsonLayout layout) {
  const bool indented = layout == JsonLayout::kIndented;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  CHECK(status.ok()) << status.ToString();
  if (indented) return json;
  // MessageToJsonString() leaves out absent fields, so their nulls are added
  // here.
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* const field = message.GetDescriptor()->field(i);
    if (field->has_presence() &&
        !message.GetReflection()->HasField(message, field)) {
      // There are always fields before it.
      json.pop_back();
      absl::StrAppend(&json, ",\"", field->name(), "\":null}");
    }
  }
  return json;
}

}  // namespace verbena::tool
