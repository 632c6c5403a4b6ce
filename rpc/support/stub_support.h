// Functions that generated stubs call. They may change together with the plugin
// that generates those.

#ifndef VERBENA_RPC_SUPPORT_STUB_SUPPORT_H_
#define VERBENA_RPC_SUPPORT_STUB_SUPPORT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"
#include "proto/method_hash.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_reactor.h"
#include "rpc/client_stream.h"
#include "rpc/stream.h"

namespace verbena {

namespace internal {

// The way of stubs to what channels and reactors hide from users.
class StubAccess {
 public:
  static ChannelImpl* Impl(const Channel& channel) { return channel.impl(); }
  static absl::StatusOr<ChannelImpl*> MakeImpl(Channel& channel) {
    return channel.MakeImpl();
  }
  // Has StartCall() of `starter` call `start`.
  static void SetStart(CallStarter* starter,
                       absl::AnyInvocable<void() &&> start) {
    starter->start_ = std::move(start);
  }
  template <typename Request>
  static void ReadResponse(ClientWriteReactor<Request>* reactor,
                           google::protobuf::MessageLite* response) {
    reactor->ReadResponse(response);
  }
};

}  // namespace internal

// The full name of a method, "package.Service/Method", and its number on
// the wire.
class MethodDescriptor {
 public:
  // `full_name` must have static storage.
  explicit constexpr MethodDescriptor(const char* full_name)
      : full_name_(full_name), id_(MethodHash(full_name)) {}

  constexpr const char* full_name() const { return full_name_; }
  constexpr uint64_t id() const { return id_; }

 private:
  const char* full_name_;
  uint64_t id_;
};

// Calls `method` and waits. If the result is OK, `*response` is what the
// server sent, else it is unspecified. The calling thread polls the network
// while it waits.
absl::Status BlockingUnaryCall(Channel& channel, const MethodDescriptor& method,
                               ClientContext* context,
                               const google::protobuf::MessageLite& request,
                               google::protobuf::MessageLite* response);

// Starts a call and returns; `on_done` is called once, and not from inside this
// function, unless the process has no thread or descriptor left to call it
// with. `context`, `request` and `response` must stay alive, and the request
// unchanged, until then. If `on_done` is null no call is made, because nobody
// could tell when they are free again.
void AsyncUnaryCall(Channel& channel, const MethodDescriptor& method,
                    ClientContext* context,
                    const google::protobuf::MessageLite* request,
                    google::protobuf::MessageLite* response,
                    UnaryCallback&& on_done);

// Has `reactor` start such a call by its StartCall(). `channel` must be alive
// then.
void BindUnaryReactor(Channel& channel, const MethodDescriptor& method,
                      ClientContext* context,
                      const google::protobuf::MessageLite* request,
                      google::protobuf::MessageLite* response,
                      ClientUnaryReactor* reactor);

// Has `reactor` start a call of a method that streams. `request` is null unless
// the method streams only its responses; else it must stay as it is until
// StartCall() has returned. `without_request` is the type where there is none.
void BindReactor(std::shared_ptr<Channel> channel,
                 const MethodDescriptor& method, ClientContext* context,
                 const google::protobuf::MessageLite* request,
                 internal::ClientReactor* reactor,
                 RpcType without_request = RpcType::kBidiStreaming);

// As BindReactor(), but for a method that streams only its requests.
template <typename Request>
void BindWriteReactor(std::shared_ptr<Channel> channel,
                      const MethodDescriptor& method, ClientContext* context,
                      google::protobuf::MessageLite* response,
                      ClientWriteReactor<Request>* reactor) {
  internal::StubAccess::ReadResponse(reactor, response);
  BindReactor(std::move(channel), method, context, nullptr, reactor,
              RpcType::kClientStreaming);
}

// Starts a call for the three functions below. Never null: if the call can't be
// started, Finish() says why.
std::unique_ptr<ClientStream> StartStream(std::shared_ptr<Channel> channel,
                                          const MethodDescriptor& method,
                                          RpcType type, ClientContext* context);

// Returns a stream that could not be started; Finish() returns `status`.
std::unique_ptr<ClientStream> FailedStream(absl::Status status);

// Start a call of a method that streams. If it can't be started, Finish() says
// why. `context` must outlive the stream, and so must `response`.
template <typename Response>
std::unique_ptr<ClientReader<Response>> ServerStreamingCall(
    std::shared_ptr<Channel> channel, const MethodDescriptor& method,
    ClientContext* context, const google::protobuf::MessageLite& request) {
  std::unique_ptr<ClientStream> stream = StartStream(
      std::move(channel), method, RpcType::kServerStreaming, context);
  stream->Write(request, {});
  stream->WritesDone();
  return std::make_unique<ClientReader<Response>>(std::move(stream));
}

template <typename Request>
std::unique_ptr<ClientWriter<Request>> ClientStreamingCall(
    std::shared_ptr<Channel> channel, const MethodDescriptor& method,
    ClientContext* context, google::protobuf::MessageLite* response) {
  return std::make_unique<ClientWriter<Request>>(
      StartStream(std::move(channel), method, RpcType::kClientStreaming,
                  context),
      response);
}

template <typename Request, typename Response>
std::unique_ptr<ClientReaderWriter<Request, Response>> BidiStreamingCall(
    std::shared_ptr<Channel> channel, const MethodDescriptor& method,
    ClientContext* context) {
  return std::make_unique<ClientReaderWriter<Request, Response>>(StartStream(
      std::move(channel), method, RpcType::kBidiStreaming, context));
}

}  // namespace verbena

#endif  // VERBENA_RPC_SUPPORT_STUB_SUPPORT_H_
