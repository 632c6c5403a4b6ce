// Calls a method with messages that are JSON.

#ifndef VERBENA_TOOLS_VERBENA_JSON_CALL_H_
#define VERBENA_TOOLS_VERBENA_JSON_CALL_H_

#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/generic_stub.h"

namespace verbena::tool {

// All that is left in `in`; nothing if it can't be read.
std::optional<std::string> ReadAll(std::istream& in);

// A call of a method of any of the four kinds. For one thread.
class JsonCall {
 public:
  // All of these must outlive it.
  JsonCall(std::shared_ptr<Channel> channel,
           const google::protobuf::MethodDescriptor* method,
           ClientContext* context)
      : stub_(std::move(channel)), method_(*method), context_(*context) {}

  // Sends what `in` has and writes each response to `out` as it comes. To a
  // method that takes one request all of `in` is that, and nothing is an empty
  // message. To one that takes a stream each line is a request, which is sent
  // when it has been read; empty lines are none. Responses of a stream are
  // written likewise, one a line. Returns how the call has ended; `*bad_input`
  // becomes true if it did because `in` is not JSON of such a message, or can't
  // be read.
  absl::Status Run(std::istream& in, std::ostream& out, bool* bad_input);

 private:
  absl::StatusOr<std::string> ToBytes(const std::string& json);
  absl::Status Print(const std::string& bytes, std::ostream& out);
  // Writes requests until `in` ends, or the call does. An error if one is bad.
  absl::Status WriteLines(std::istream& in, GenericStub::ReaderWriter* stream);
  std::string name() const;

  GenericStub stub_;
  const google::protobuf::MethodDescriptor& method_;
  ClientContext& context_;
  google::protobuf::DynamicMessageFactory messages_;
};

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_JSON_CALL_H_
