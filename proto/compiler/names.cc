#include "proto/compiler/names.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/compiler/code_generator.h"
#include "google/protobuf/compiler/cpp/names.h"
#include "google/protobuf/descriptor.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

// Keep sorted. After the keywords of C++20 and the alternative tokens come, by
// their place in the alphabet, the macros that a generated file is likely to
// see: EOF, NULL, assert, errno, linux, offsetof, unix.
constexpr absl::string_view kReservedWords[] = {
    "EOF",
    "NULL",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "assert",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "linux",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "offsetof",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};
static_assert(std::is_sorted(std::begin(kReservedWords),
                             std::end(kReservedWords)));

// Returns `wanted`, with as many underscores after it as make it differ from
// every name in `taken`, and adds it there.
std::string Choose(std::string wanted, std::set<std::string>& taken) {
  while (!taken.insert(wanted).second) wanted.push_back('_');
  return wanted;
}

// Nested types count, because protoc's classes for them stand beside the outer
// one: Outer_Inner.
void AddTypeNames(const pb::Descriptor& message, std::set<std::string>& names) {
  names.insert(pb::compiler::cpp::ClassName(&message));
  for (int i = 0; i < message.nested_type_count(); ++i) {
    AddTypeNames(*message.nested_type(i), names);
  }
  for (int i = 0; i < message.enum_type_count(); ++i) {
    names.insert(pb::compiler::cpp::ClassName(message.enum_type(i)));
  }
}

void AddTypeNames(const pb::FileDescriptor& file, const std::string& package,
                  std::set<const pb::FileDescriptor*>& visited,
                  std::set<std::string>& names) {
  // Several files may import this one.
  if (!visited.insert(&file).second) return;
  if (file.package() == package) {
    for (int i = 0; i < file.message_type_count(); ++i) {
      AddTypeNames(*file.message_type(i), names);
    }
    for (int i = 0; i < file.enum_type_count(); ++i) {
      names.insert(pb::compiler::cpp::ClassName(file.enum_type(i)));
    }
  }
  // Imports of other packages are searched as well, because they may import
  // files of this package.
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddTypeNames(*file.dependency(i), package, visited, names);
  }
}

}  // namespace

// The table is sorted, which a static_assert above checks.
bool IsReservedWord(absl::string_view name) {
  return std::binary_search(std::begin(kReservedWords),
                            std::end(kReservedWords), name);
}

std::string CppIdentifier(absl::string_view name) {
  return IsReservedWord(name) ? absl::StrCat(name, "_") : std::string(name);
}

std::string ServiceClass(const pb::ServiceDescriptor& service) {
  return CppIdentifier(service.name());
}

std::string MethodFunction(const pb::MethodDescriptor& method) {
  return CppIdentifier(method.name());
}

// Uses the names of the .proto, because both peers hash this text.
std::string MethodFullName(const pb::MethodDescriptor& method) {
  return absl::StrCat(method.service()->full_name(), "/", method.name());
}

// The words are parts of the names of the runtime: BidiStreamingCall,
// RpcType::kUnary.
std::string CallKind(const pb::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? "BidiStreaming" : "ClientStreaming";
  }
  return method.server_streaming() ? "ServerStreaming" : "Unary";
}

std::vector<std::string> PackageParts(const pb::FileDescriptor& file) {
  // A file without a package has an empty one, which has no parts.
  return absl::StrSplit(file.package(), '.', absl::SkipEmpty());
}

std::string HeaderFile(const pb::FileDescriptor& file) {
  return absl::StrCat(pb::compiler::StripProto(file.name()), ".verbena.h");
}

std::string SourceFile(const pb::FileDescriptor& file) {
  return absl::StrCat(pb::compiler::StripProto(file.name()), ".verbena.cc");
}

std::string MessageHeaderFile(const pb::FileDescriptor& file) {
  return absl::StrCat(pb::compiler::StripProto(file.name()), ".pb.h");
}

// An underscore is escaped as well, so no two names of files give one guard.
std::string HeaderGuard(const pb::FileDescriptor& file) {
  std::string guard = "VERBENA_";
  for (char character : file.name()) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(character))) {
      guard.push_back(character);
    } else {
      absl::StrAppendFormat(&guard, "_%02x",
                            static_cast<unsigned char>(character));
    }
  }
  return absl::StrCat(guard, "_INCLUDED");
}

// Names of methods are taken first, because the .proto fixes them.
MemberNames ChooseMemberNames(const pb::ServiceDescriptor& service) {
  std::set<std::string> taken;
  for (int i = 0; i < service.method_count(); ++i) {
    taken.insert(MethodFunction(*service.method(i)));
  }
  MemberNames names;
  names.channel = Choose("channel_", taken);
  names.stub = Choose("stub_", taken);
  names.async_class = Choose("AsyncStub", taken);
  names.async_stub = Choose("async_stub_", taken);
  names.co_async = Choose("async_", taken);
  names.co_executor = Choose("executor_", taken);
  for (int i = 0; i < service.method_count(); ++i) {
    names.descriptors.push_back(
        Choose(absl::StrCat("method_", service.method(i)->name(), "_"), taken));
  }
  return names;
}

std::set<std::string> TypeNamesOfPackage(const pb::FileDescriptor& file) {
  std::set<const pb::FileDescriptor*> visited;
  std::set<std::string> names;
  AddTypeNames(file, file.package(), visited, names);
  return names;
}

}  // namespace verbena::compiler
