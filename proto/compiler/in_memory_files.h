// .proto files in and generated files out without a disk, for the tests.

#ifndef VERBENA_PROTO_COMPILER_IN_MEMORY_FILES_H_
#define VERBENA_PROTO_COMPILER_IN_MEMORY_FILES_H_

#include <map>
#include <string>

#include "google/protobuf/compiler/code_generator.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace verbena::compiler {

// The .proto files that a test gives to protoc's parser, by name.
class InMemorySources : public google::protobuf::compiler::SourceTree {
 public:
  void Add(const std::string& name, const std::string& text) {
    files_[name] = text;
  }

  google::protobuf::io::ZeroCopyInputStream* Open(
      const std::string& name) override;

 private:
  std::map<std::string, std::string> files_;
};

// Files that a generator wrote, by name. Outlives the streams that it
// hands out.
class InMemoryOutput : public google::protobuf::compiler::GeneratorContext {
 public:
  google::protobuf::io::ZeroCopyOutputStream* Open(
      const std::string& name) override;

  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  std::map<std::string, std::string> files_;
};

// Keeps the first mistake that protoc's parser finds, after the words "protoc:
// ".
class FirstError : public google::protobuf::compiler::MultiFileErrorCollector {
 public:
  void AddError(const std::string& file, int line, int column,
                const std::string& message) override;

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The result of one run of the generator.
struct Generated {
  std::string error;  // Empty when it went well.
  std::map<std::string, std::string> files;
};

// Runs the generator over the file `name` of `sources`, after protoc's own
// parser; a mistake that protoc itself finds is an error here too.
Generated Generate(InMemorySources& sources, const std::string& name,
                   const std::string& parameter = "");

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_IN_MEMORY_FILES_H_
