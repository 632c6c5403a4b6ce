// Calls methods by their names, without their .proto.
//
//   verbena::GenericStub stub(channel);
//   verbena::ByteMessage request(hello.SerializeAsString());
//   verbena::ByteMessage response;
//   absl::Status status = stub.UnaryCall(
//       &context, "helloworld.Greeter/SayHello", request, &response);
//
// For proxies, tools, and tests. The server sees no difference to calls of a
// generated stub, and need not be a generic one.

#ifndef VERBENA_RPC_GENERIC_STUB_H_
#define VERBENA_RPC_GENERIC_STUB_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/byte_message.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_reactor.h"
#include "rpc/client_stream.h"

namespace verbena {

// Methods are named "package.Service/Method"; the slash that gRPC puts before
// is allowed, and dropped. If `method` can't be a method's name, the call ends
// with INVALID_ARGUMENT before it begins, and a callback is called at once. The
// caller must know whether a method streams: the server ends a call of the
// wrong kind with UNIMPLEMENTED.
//
// Any number of threads may use it at the same time. The stub and the names
// need not outlive the calls. The other arguments must live as long as for a
// generated stub.
class GenericStub {
 public:
  using Reader = ClientReader<ByteMessage>;
  using Writer = ClientWriter<ByteMessage>;
  using ReaderWriter = ClientReaderWriter<ByteMessage, ByteMessage>;

  explicit GenericStub(std::shared_ptr<Channel> channel)
      : channel_(std::move(channel)) {}

  // Makes a unary call: waits for it, or calls `on_done` when it has ended.
  absl::Status UnaryCall(ClientContext* context, absl::string_view method,
                         const ByteMessage& request,
                         ByteMessage* response) const;
  void UnaryCall(ClientContext* context, absl::string_view method,
                 const ByteMessage* request, ByteMessage* response,
                 UnaryCallback on_done) const;

  // Call a method that streams its responses, its requests, or both. If the
  // call can't be made, Finish() of the stream says why. BidiStreamingCall()
  // can call methods of the other two kinds as well, if the caller does not
  // know the kind.
  std::unique_ptr<Reader> ServerStreamingCall(ClientContext* context,
                                              absl::string_view method,
                                              const ByteMessage& request) const;
  std::unique_ptr<Writer> ClientStreamingCall(ClientContext* context,
                                              absl::string_view method,
                                              ByteMessage* response) const;
  std::unique_ptr<ReaderWriter> BidiStreamingCall(
      ClientContext* context, absl::string_view method) const;

  // As BidiStreamingCall(), but without waiting, and by gRPC's name: `reactor`,
  // which is not null, starts the call by its StartCall().
  void PrepareBidiStreamingCall(
      ClientContext* context, absl::string_view method,
      ClientBidiReactor<ByteMessage, ByteMessage>* reactor) const;

 private:
  const std::shared_ptr<Channel> channel_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_GENERIC_STUB_H_
