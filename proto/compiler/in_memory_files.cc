#include "proto/compiler/in_memory_files.h"

#include <string>

#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/compiler/generator.h"

namespace verbena::compiler {
namespace pb = google::protobuf;

void FirstError::AddError(const std::string& file, int line, int /*column*/,
                          const std::string& message) {
  if (!text_.empty()) return;
  // protoc counts lines from 0.
  text_ = "protoc: " + file + ":" + std::to_string(line + 1) + ": " + message;
}

pb::io::ZeroCopyInputStream* InMemorySources::Open(const std::string& name) {
  const auto place = files_.find(name);
  if (place == files_.end()) return nullptr;
  // The caller owns the stream, as SourceTree demands.
  return new pb::io::ArrayInputStream(place->second.data(),
                                      static_cast<int>(place->second.size()));
}

pb::io::ZeroCopyOutputStream* InMemoryOutput::Open(const std::string& name) {
  return new pb::io::StringOutputStream(&files_[name]);
}

// Parses as protoc does before it starts a plugin, so that tests see its errors
// too.
Generated Generate(InMemorySources& sources, const std::string& name,
                   const std::string& parameter) {
  FirstError errors;
  pb::compiler::Importer importer(&sources, &errors);
  const pb::FileDescriptor* file = importer.Import(name);
  if (file == nullptr) return {.error = errors.text(), .files = {}};
  InMemoryOutput output;
  Generated result;
  Generator generator;
  const bool succeeded =
      generator.Generate(file, parameter, &output, &result.error);
  // An empty error means success to the tests.
  if (!succeeded && result.error.empty()) result.error = "failed silently";
  result.files = output.files();
  return result;
}

}  // namespace verbena::compiler
