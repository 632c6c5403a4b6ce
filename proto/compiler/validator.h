// Finds what a .proto file asks for that cannot be generated.

#ifndef VERBENA_PROTO_COMPILER_VALIDATOR_H_
#define VERBENA_PROTO_COMPILER_VALIDATOR_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace verbena::compiler {

// Returns everything in `file` for which no code can be generated that compiles
// and works, as sentences that name the service, the method and its line and
// say what to change; empty when all is well.
//
// protoc has checked the file before: names are unique in .proto terms and all
// types exist. What remains are names that only C++ finds fault with, and
// hashes that collide.
std::vector<std::string> Validate(const google::protobuf::FileDescriptor& file);

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_VALIDATOR_H_
