// Carries the comments of a .proto file over to the generated code.

#ifndef VERBENA_PROTO_COMPILER_COMMENTS_H_
#define VERBENA_PROTO_COMPILER_COMMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"

namespace verbena::compiler {

// Splits `text`, a comment as protoc keeps it (without its markers), into whole
// C++ line comments, "//" included. None of them can swallow the line after it:
// a backslash at the end of a line gets a full stop.
std::vector<std::string> CommentLines(absl::string_view text);

// Prints the comments that stand before `descriptor` and those that follow it
// on its line, as C++ comments at the printer's indentation; nothing when there
// are none.
void PrintComments(const google::protobuf::ServiceDescriptor& descriptor,
                   google::protobuf::io::Printer& printer);
void PrintComments(const google::protobuf::MethodDescriptor& descriptor,
                   google::protobuf::io::Printer& printer);

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_COMMENTS_H_
