// A method of a service as the server sees it, its message types hidden.

#ifndef VERBENA_RPC_SUPPORT_METHOD_H_
#define VERBENA_RPC_SUPPORT_METHOD_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/stream.h"

namespace verbena::internal {

class ServerCallState;
class ServerReactor;

// The messages of one call that are not streamed. Reused for later calls of the
// same method.
class CallMessages {
 public:
  virtual ~CallMessages() = default;
  // Null if the client streams its requests, or the handler its responses.
  virtual google::protobuf::MessageLite* request() = 0;
  virtual google::protobuf::MessageLite* response() = 0;
  // Returns the memory that both messages take, cleared or not; SIZE_MAX if
  // one of them can't tell (LITE_RUNTIME). Takes time in proportion to
  // their contents.
  virtual size_t SpaceUsed() const = 0;
  // Gives the memory of the request back.
  virtual void DropRequest() = 0;
};

// Returns the status of a streaming call whose client did not send its
// one request.
inline absl::Status NoRequest(absl::string_view method) {
  return absl::InvalidArgumentError(
      absl::StrCat(method, ": the client ended the call without a request"));
}

// Stands for the names of methods that are known only when they are called.
inline constexpr char kGenericName[] = "generic call";

// Thread-safe as far as the user's handler is.
class Method {
 public:
  // `full_name` is "package.Service/Method", or kGenericName.
  Method(const char* full_name, RpcType type, bool asynchronous)
      : full_name_(full_name), type_(type), asynchronous_(asynchronous) {}
  virtual ~Method() = default;

  const std::string& full_name() const { return full_name_; }
  RpcType type() const { return type_; }
  // Whether its messages come and go by a stream, any number of them either
  // way.
  bool streams() const { return type_ != RpcType::kUnary; }
  // Whether its handlers do not block: then Start() is called, else Run().
  bool asynchronous() const { return asynchronous_; }
  // Whether it stands for all methods that have no Method of their own.
  bool is_generic() const { return is_generic_; }
  // Null for a blocking method that streams.
  virtual std::unique_ptr<CallMessages> NewMessages() const { return nullptr; }

  // Calls the handler, with a context of `call`. REQUIRES: `messages` is from
  // this->NewMessages(), and `stream` is not null if the method streams.
  virtual absl::Status Run(ServerCallState* /*call*/,
                           CallMessages* /*messages*/,
                           MessageReaderWriter* /*stream*/) const {
    return absl::InternalError("not a blocking method");
  }
  // As Run(), on the thread that polls. The reactor that it
  // returns serves the rest of the call. REQUIRES: `messages` is
  // from this->NewMessages().
  virtual ServerReactor* Start(ServerCallState* /*call*/,
                               CallMessages* /*messages*/) const {
    return nullptr;
  }

 private:
  const std::string full_name_;
  const RpcType type_;
  const bool asynchronous_;
  const bool is_generic_ = full_name_ == kGenericName;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_METHOD_H_
