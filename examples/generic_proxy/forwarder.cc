#include "examples/generic_proxy/forwarder.h"

#include <chrono>
#include <future>
#include <thread>

#include "rpc/buffer.h"
#include "rpc/client_context.h"

namespace generic_proxy {
namespace {

using verbena::Buffer;
using verbena::ByteMessage;
using verbena::ClientContext;
using verbena::ServerContext;

// How soon a call is given up at the backend that was given up here.
constexpr std::chrono::milliseconds kLookInterval(20);

void PassOn(const ServerContext& from, ClientContext* to) {
  to->set_deadline(from.deadline());
  for (const auto& [key, value] : from.client_metadata()) {
    to->AddMetadata(key, value);
  }
}

void PassBack(const ClientContext& from, ServerContext* to) {
  for (const auto& [key, value] : from.GetServerTrailingMetadata()) {
    to->AddTrailingMetadata(key, value);
  }
}

}  // namespace

absl::Status Forwarder::HandleUnary(ServerContext* context,
                                    const ByteMessage* request,
                                    ByteMessage* response) {
  ClientContext outgoing;
  PassOn(*context, &outgoing);
  outgoing.set_request_attachment(context->TakeRequestAttachment());
  std::promise<absl::Status> promise;
  std::future<absl::Status> ended = promise.get_future();
  backend_.UnaryCall(
      &outgoing, context->method(), request, response,
      [promise = std::move(promise)](absl::Status status) mutable {
        promise.set_value(std::move(status));
      });
  while (ended.wait_for(kLookInterval) == std::future_status::timeout) {
    if (context->IsCancelled()) outgoing.TryCancel();
  }
  context->set_response_attachment(outgoing.TakeResponseAttachment());
  PassBack(outgoing, context);
  return ended.get();
}

absl::Status Forwarder::HandleStream(
    ServerContext* context,
    verbena::ServerReaderWriter<ByteMessage, ByteMessage>* stream) {
  ClientContext outgoing;
  PassOn(*context, &outgoing);
  const auto backend = backend_.BidiStreamingCall(&outgoing, context->method());

  // One thread for each direction: neither waits for the other.
  std::thread requests([&] {
    ByteMessage message;
    Buffer attachment;
    while (stream->Read(&message, &attachment) &&
           backend->Write(message, attachment.span())) {
    }
    if (context->IsCancelled()) {
      outgoing.TryCancel();
    } else {
      backend->WritesDone();
    }
  });
  ByteMessage message;
  Buffer attachment;
  while (backend->Read(&message, &attachment)) {
    if (!stream->Write(message, attachment.span())) outgoing.TryCancel();
  }

  // The backend may have ended the call before the client has sent all.
  stream->StopReading();
  requests.join();
  absl::Status status = backend->Finish();
  PassBack(outgoing, context);
  return status;
}

}  // namespace generic_proxy
