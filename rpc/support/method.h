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

// Thread-safe as far as the user's handler is.
class Method {
 public:
  explicit Method(const char* full_name) : full_name_(full_name) {}
  virtual ~Method() = default;

  virtual RpcType type() const = 0;
  // Whether its messages come and go by a stream, any number of them either
  // way.
  bool streams() const { return type() != RpcType::kUnary; }
  // Whether its handlers do not block: then Start() is called, else Run().
  virtual bool asynchronous() const { return false; }
  // Whether it stands for all methods that have no Method of their own.
  virtual bool is_generic() const { return false; }
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

  const std::string& full_name() const { return full_name_; }

 private:
  const std::string full_name_;  // "package.Service/Method".
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_METHOD_H_
