// From the names of a .proto file to those of the C++ code generated for it.
//
// Messages keep the names that protoc's own C++ generator gives them; this file
// decides the rest: services, methods, files, members.

#ifndef VERBENA_PROTO_COMPILER_NAMES_H_
#define VERBENA_PROTO_COMPILER_NAMES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace verbena::compiler {

// Returns whether `name` cannot be an identifier in C++20, because it is a
// keyword or a macro of the C library.
bool IsReservedWord(absl::string_view name);

// Returns `name` as a C++ identifier: followed by an underscore if it is a
// reserved word, as protoc does for messages and fields.
std::string CppIdentifier(absl::string_view name);

std::string ServiceClass(const google::protobuf::ServiceDescriptor& service);
std::string MethodFunction(const google::protobuf::MethodDescriptor& method);

// The name by which a method is called over the wire: "package.Service/Method",
// never changed by what C++ reserves.
std::string MethodFullName(const google::protobuf::MethodDescriptor& method);

// The word for this kind of call in the names of the runtime's functions:
// "Unary", "ServerStreaming", "ClientStreaming" or "BidiStreaming".
std::string CallKind(const google::protobuf::MethodDescriptor& method);

// The parts of the package of `file`, outermost first.
std::vector<std::string> PackageParts(
    const google::protobuf::FileDescriptor& file);

// "a/b.proto" becomes "a/b.verbena.h", "a/b.verbena.cc", "a/b.pb.h".
std::string HeaderFile(const google::protobuf::FileDescriptor& file);
std::string SourceFile(const google::protobuf::FileDescriptor& file);
std::string MessageHeaderFile(const google::protobuf::FileDescriptor& file);

// The include guard of HeaderFile(). Different files have different guards:
// characters that an identifier cannot hold are written in hexadecimal.
std::string HeaderGuard(const google::protobuf::FileDescriptor& file);

// Names of the private members that a generated class needs beside the methods
// of its service, none of them equal to a method's.
struct MemberNames {
  std::string channel;
  std::string stub;
  std::string async_class;
  std::string async_stub;
  std::string co_async;
  std::string co_executor;
  std::vector<std::string> descriptors;  // Names, one per method, in order.
};

MemberNames ChooseMemberNames(
    const google::protobuf::ServiceDescriptor& service);

// The C++ names of every message and enumeration, nested ones included, that
// `file` and the files it imports define in the package of `file`.
std::set<std::string> TypeNamesOfPackage(
    const google::protobuf::FileDescriptor& file);

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_NAMES_H_
