#include "proto/compiler/validator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "proto/compiler/names.h"
#include "proto/method_hash.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

// Members of the class generated for a service: a class cannot have a member of
// its own name.
constexpr absl::string_view kServiceMembers[] = {
    "CallbackService", "CoroutineService",  "NewStub", "Service", "Stub",
    "StubInterface",   "service_full_name",
};

// Names that the classes around the methods have, or have members of.
constexpr absl::string_view kMethodNeighbours[] = {
    "CallbackService", "CoroutineService",
    "Service",         "Stub",
    "StubInterface",   "async",
    "async_interface", "co",
    "co_interface",
};

template <size_t kSize>
bool Contains(const absl::string_view (&names)[kSize], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// " (line 12)", or nothing when the descriptor came without source positions.
template <typename Descriptor>
std::string Line(const Descriptor& descriptor) {
  pb::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return "";
  return absl::StrFormat(" (line %d)", location.start_line + 1);
}

std::string Describe(const pb::ServiceDescriptor& service) {
  return absl::StrFormat("service \"%s\"%s", service.full_name(),
                         Line(service));
}

std::string Describe(const pb::MethodDescriptor& method) {
  return absl::StrFormat("service \"%s\", method \"%s\"%s",
                         method.service()->full_name(), method.name(),
                         Line(method));
}

// protoc itself accepts such a package, and then writes a namespace that does
// not compile.
void CheckPackage(const pb::FileDescriptor& file,
                  std::vector<std::string>& problems) {
  for (const std::string& part : PackageParts(file)) {
    if (!IsReservedWord(part)) continue;
    problems.push_back(absl::StrFormat(
        "package \"%s\": \"%s\" is a reserved word in C++, and protoc "
        "generates "
        "no C++ messages that compile for such a package; rename the package",
        file.package(), part));
  }
}

// A name may be wrong in both ways, so both are reported.
void CheckServiceName(const pb::ServiceDescriptor& service,
                      const std::set<std::string>& type_names,
                      std::vector<std::string>& problems) {
  const std::string name = ServiceClass(service);
  if (Contains(kServiceMembers, name)) {
    problems.push_back(absl::StrFormat(
        "%s: the generated class would have a member of its own name, \"%s\"; "
        "rename the service",
        Describe(service), name));
  }
  // Services and messages of one package share a C++ namespace.
  if (type_names.contains(name)) {
    problems.push_back(absl::StrFormat(
        "%s: protoc generates a message or enumeration class that is called "
        "\"%s\" too; rename the service or that type",
        Describe(service), name));
  }
}

// `functions` holds the methods of the service before this one, by C++ name.
void CheckMethodName(
    const pb::MethodDescriptor& method,
    std::map<std::string, const pb::MethodDescriptor*>& functions,
    std::vector<std::string>& problems) {
  const std::string name = MethodFunction(method);
  if (Contains(kMethodNeighbours, name)) {
    problems.push_back(absl::StrFormat(
        "%s: \"%s\" is the name of a generated class or member; rename the "
        "method",
        Describe(method), name));
  }
  auto [place, is_new] = functions.emplace(name, &method);
  if (!is_new) {
    problems.push_back(absl::StrFormat(
        "%s: its C++ function would be called \"%s\", and so would that of "
        "method \"%s\"; rename one of them",
        Describe(method), name, place->second->name()));
  }
}

// Compares hashes over all services, and reports the later method of a pair.
void CheckHashes(const pb::FileDescriptor& file,
                 std::vector<std::string>& problems) {
  // All services of the file together, because a server looks a method up by
  // its hash alone.
  std::map<uint64_t, std::string> methods;
  for (int i = 0; i < file.service_count(); ++i) {
    const pb::ServiceDescriptor& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      const pb::MethodDescriptor& method = *service.method(j);
      const std::string full_name = MethodFullName(method);
      const uint64_t hash = MethodHash(full_name);
      auto [place, is_new] = methods.emplace(hash, full_name);
      if (is_new) continue;
      problems.push_back(absl::StrFormat(
          "%s: the hash by which it is called, %016x, is also that of \"%s\"; "
          "rename one of them",
          Describe(method), hash, place->second));
    }
  }
}

}  // namespace

// Collects all problems instead of stopping at the first, so that a user can
// mend them in one go.
std::vector<std::string> Validate(const pb::FileDescriptor& file) {
  std::vector<std::string> problems;
  // Without services there is no code that could be wrong.
  if (file.service_count() == 0) return problems;
  CheckPackage(file, problems);
  const std::set<std::string> type_names = TypeNamesOfPackage(file);
  std::set<std::string> services;
  for (int i = 0; i < file.service_count(); ++i) {
    const pb::ServiceDescriptor& service = *file.service(i);
    CheckServiceName(service, type_names, problems);
    // Two names of a .proto may become one in C++, because reserved words get
    // an underscore.
    if (!services.insert(ServiceClass(service)).second) {
      problems.push_back(absl::StrFormat(
          "%s: another service of the file has the C++ name \"%s\" too; rename "
          "one of them",
          Describe(service), ServiceClass(service)));
    }
    std::map<std::string, const pb::MethodDescriptor*> functions;
    for (int j = 0; j < service.method_count(); ++j) {
      CheckMethodName(*service.method(j), functions, problems);
    }
  }
  CheckHashes(file, problems);
  return problems;
}

}  // namespace verbena::compiler
