// The JSON of all tools: proto3 messages with the names of their fields.

#ifndef VERBENA_TOOLS_JSON_PROTO_JSON_H_
#define VERBENA_TOOLS_JSON_PROTO_JSON_H_

#include <string>

#include "google/protobuf/message.h"

namespace verbena::tool {

enum class JsonLayout { kOneLine, kIndented };

// Returns `message` as one JSON object. Every number and text is there. In one
// line, which has no newline at its end, a field of `message` itself that is
// absent is null; otherwise protobuf leaves it out.
std::string ToJson(const google::protobuf::Message& message,
                   JsonLayout layout = JsonLayout::kOneLine);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_JSON_PROTO_JSON_H_
