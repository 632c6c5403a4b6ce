// protoc-gen-verbena: the protoc plugin that turns the services of a .proto
// file into C++. With it on the PATH:
//
//   protoc --cpp_out=OUT --verbena_out=OUT greeter.proto

#include "google/protobuf/compiler/plugin.h"
#include "proto/compiler/generator.h"

int main(int argc, char** argv) {
  verbena::compiler::Generator generator;
  return google::protobuf::compiler::PluginMain(argc, argv, &generator);
}
