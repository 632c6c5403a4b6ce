#include "rpc/generic_stub.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/strip.h"
#include "rpc/internal/codec/method_name.h"
#include "rpc/support/stub_support.h"

namespace verbena {
namespace {

absl::StatusOr<std::string> NameOf(absl::string_view method) {
  // gRPC writes the name with a slash in front.
  absl::ConsumePrefix(&method, "/");
  const absl::Status valid = internal::CheckMethodName(method);
  if (!valid.ok()) return valid;
  return std::string(method);
}

// The owner that a stream keeps alive: its channel and the method's name.
struct Kept {
  Kept(std::shared_ptr<Channel> kept_channel, std::string kept_name)
      : channel(std::move(kept_channel)),
        name(std::move(kept_name)),
        descriptor(name.c_str()) {}

  const std::shared_ptr<Channel> channel;
  const std::string name;
  const MethodDescriptor descriptor;
};

std::unique_ptr<ClientStream> Start(std::shared_ptr<Channel> channel,
                                    absl::string_view method, RpcType type,
                                    ClientContext* context) {
  absl::StatusOr<std::string> name = NameOf(method);
  if (!name.ok()) return FailedStream(name.status());
  // The stream keeps an aliased pointer to the channel, which keeps the name,
  // too.
  const auto kept =
      std::make_shared<const Kept>(std::move(channel), *std::move(name));
  return StartStream(std::shared_ptr<Channel>(kept, kept->channel.get()),
                     kept->descriptor, type, context);
}

}  // namespace

absl::Status GenericStub::UnaryCall(ClientContext* context,
                                    absl::string_view method,
                                    const ByteMessage& request,
                                    ByteMessage* response) const {
  const absl::StatusOr<std::string> name = NameOf(method);
  if (!name.ok()) return name.status();
  return BlockingUnaryCall(*channel_, MethodDescriptor(name->c_str()), context,
                           request, response);
}

void GenericStub::UnaryCall(ClientContext* context, absl::string_view method,
                            const ByteMessage* request, ByteMessage* response,
                            UnaryCallback on_done) const {
  if (on_done == nullptr) return;
  absl::StatusOr<std::string> name = NameOf(method);
  if (!name.ok()) return std::move(on_done)(name.status());
  // The callback keeps the name.
  auto kept = std::make_unique<const std::string>(*std::move(name));
  const MethodDescriptor descriptor(kept->c_str());
  AsyncUnaryCall(
      *channel_, descriptor, context, request, response,
      [kept = std::move(kept), on_done = std::move(on_done)](
          absl::Status status) mutable { on_done(std::move(status)); });
}

std::unique_ptr<GenericStub::Reader> GenericStub::ServerStreamingCall(
    ClientContext* context, absl::string_view method,
    const ByteMessage& request) const {
  std::unique_ptr<ClientStream> stream =
      Start(channel_, method, RpcType::kServerStreaming, context);
  stream->Write(request, {});
  // Also after a failed write: then both do nothing, and the status says why.
  stream->WritesDone();
  return std::make_unique<Reader>(std::move(stream));
}

std::unique_ptr<GenericStub::Writer> GenericStub::ClientStreamingCall(
    ClientContext* context, absl::string_view method,
    ByteMessage* response) const {
  return std::make_unique<Writer>(
      Start(channel_, method, RpcType::kClientStreaming, context), response);
}

std::unique_ptr<GenericStub::ReaderWriter> GenericStub::BidiStreamingCall(
    ClientContext* context, absl::string_view method) const {
  return std::make_unique<ReaderWriter>(
      Start(channel_, method, RpcType::kBidiStreaming, context));
}

void GenericStub::PrepareBidiStreamingCall(
    ClientContext* context, absl::string_view method,
    ClientBidiReactor<ByteMessage, ByteMessage>* reactor) const {
  absl::StatusOr<std::string> name = NameOf(method);
  if (!name.ok()) {
    return internal::StubAccess::SetStart(
        reactor,
        [reactor, status = name.status()] { reactor->OnDone(status); });
  }
  const auto kept = std::make_shared<const Kept>(channel_, *std::move(name));
  BindReactor(std::shared_ptr<Channel>(kept, kept->channel.get()),
              kept->descriptor, context, nullptr, reactor);
}

}  // namespace verbena
