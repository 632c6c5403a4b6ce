// The services and messages of a server, which are read from .proto files or
// from the server's reflection.

#ifndef VERBENA_TOOLS_VERBENA_SCHEMA_H_
#define VERBENA_TOOLS_VERBENA_SCHEMA_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "rpc/channel.h"

namespace verbena::tool {

// Not thread-safe. The Schema owns the descriptors that its functions return.
class Schema {
 public:
  virtual ~Schema() = default;

  // Returns the schema of .proto files, whose paths are relative to one of the
  // folders `roots`. Fails with INVALID_ARGUMENT and the compiler's errors.
  static absl::StatusOr<std::unique_ptr<Schema>> FromFiles(
      const std::vector<std::string>& files,
      const std::vector<std::string>& roots);
  // Returns the schema of a server. Each function asks the server's reflection,
  // and each question may take `timeout`.
  static std::unique_ptr<Schema> FromServer(std::shared_ptr<Channel> channel,
                                            absl::Duration timeout);

  // The full names of the services, in alphabetical order.
  virtual absl::StatusOr<std::vector<std::string>> Services() = 0;

  // Returns the file with the service, method, message or enum whose full name
  // is `symbol`. Fails with NOT_FOUND if there is none. Fails with INTERNAL if
  // the server's description of it makes no sense.
  virtual absl::StatusOr<const google::protobuf::FileDescriptor*> FindFile(
      absl::string_view symbol) = 0;

  // Returns the method "package.Service/Method" or "package.Service.Method".
  absl::StatusOr<const google::protobuf::MethodDescriptor*> FindMethod(
      absl::string_view name);
  // Returns the definition of `symbol`, a full name, in the form of a .proto.
  absl::StatusOr<std::string> Describe(absl::string_view symbol);
};

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_SCHEMA_H_
