// Fuzzes protoc-gen-verbena with requests that protoc could make.

#include <cstddef>
#include <cstdint>
#include <string>

#include "google/protobuf/compiler/plugin.h"
#include "google/protobuf/compiler/plugin.pb.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/compiler/generator.h"
#include "transport/base/check.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

void Check(const uint8_t* data, size_t size) {
  // Protobuf itself says at length what is wrong with a descriptor.
  pb::SetLogHandler(nullptr);
  pb::compiler::CodeGeneratorRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  pb::compiler::CodeGeneratorResponse response;
  std::string error;
  const Generator generator;
  if (pb::compiler::GenerateCode(request, generator, &response, &error)) {
    // Files, or the reason why there are none.
    CHECK(response.file_size() == 0 || response.error().empty());
  }
}

}  // namespace
}  // namespace verbena::compiler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::compiler::Check(data, size);
  return 0;
}
