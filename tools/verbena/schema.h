// What services and messages a server has, as far as a tool can find out.

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

// For one thread. What its functions return lives as long as it does.
class Schema {
 public:
  virtual ~Schema() = default;

  // From .proto files, by their paths below one of the folders `roots`.
  // INVALID_ARGUMENT with what the compiler says of them.
  static absl::StatusOr<std::unique_ptr<Schema>> FromFiles(
      const std::vector<std::string>& files,
      const std::vector<std::string>& roots);
  // From the server's reflection, which is asked when something is looked for;
  // each question may take so long.
  static std::unique_ptr<Schema> FromServer(std::shared_ptr<Channel> channel,
                                            absl::Duration timeout);

  // The full names of the services, in alphabetical order.
  virtual absl::StatusOr<std::vector<std::string>> Services() = 0;

  // A file with the service, method, message or enum of that full name.
  // NOT_FOUND if there is none, INTERNAL if what a server says of it makes no
  // sense.
  virtual absl::StatusOr<const google::protobuf::FileDescriptor*> FindFile(
      absl::string_view symbol) = 0;

  // "package.Service/Method" or "package.Service.Method".
  absl::StatusOr<const google::protobuf::MethodDescriptor*> FindMethod(
      absl::string_view name);
  // The definition of what has that full name, as a .proto has it.
  absl::StatusOr<std::string> Describe(absl::string_view symbol);
};

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_SCHEMA_H_
