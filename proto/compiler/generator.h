// The heart of protoc-gen-verbena: one .proto file in, one header and one
// source file out.

#ifndef VERBENA_PROTO_COMPILER_GENERATOR_H_
#define VERBENA_PROTO_COMPILER_GENERATOR_H_

#include <cstdint>
#include <string>

#include "google/protobuf/compiler/code_generator.h"
#include "google/protobuf/descriptor.h"

namespace verbena::compiler {

// Generates x.verbena.h and x.verbena.cc for x.proto: for each service a class
// with a Stub for clients and a Service base class for servers. They need the
// messages that protoc generates by --cpp_out.
//
// A file without services gives two files without declarations, so that a build
// rule can rely on their names. What cannot be generated is refused, every
// reason at once, and nothing is written then.
//
// Stateless; any thread may call it.
class Generator : public google::protobuf::compiler::CodeGenerator {
 public:
  // `parameter` may be "include_prefix=FOLDER": where the generated code finds
  // the runtime's headers. Those that `./dev install` puts in place are in
  // "verbena", which is the default; in this repository they are in "rpc".
  bool Generate(const google::protobuf::FileDescriptor* file,
                const std::string& parameter,
                google::protobuf::compiler::GeneratorContext* context,
                std::string* error) const override;

  uint64_t GetSupportedFeatures() const override {
    return FEATURE_PROTO3_OPTIONAL;
  }
};

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_GENERATOR_H_
