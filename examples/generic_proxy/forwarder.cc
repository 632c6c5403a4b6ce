#include "examples/generic_proxy/forwarder.h"

#include <memory>
#include <thread>

#include "rpc/buffer.h"
#include "rpc/client_context.h"

namespace generic_proxy {
namespace {

using verbena::Buffer;
using verbena::ByteMessage;
using verbena::ClientContext;
using verbena::ServerContext;

// Returns the context of the call to the backend, which has the deadline of the
// client's call, and is cancelled with it.
std::unique_ptr<ClientContext> PassOn(ServerContext& from) {
  auto to = ClientContext::FromServerContext(from);
  for (const auto& [key, value] : from.client_metadata()) {
    to->AddMetadata(key, value);
  }
  return to;
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
  const std::unique_ptr<ClientContext> outgoing = PassOn(*context);
  outgoing->set_request_attachment(context->TakeRequestAttachment());
  absl::Status status =
      backend_.UnaryCall(outgoing.get(), context->method(), *request, response);
  context->set_response_attachment(outgoing->TakeResponseAttachment());
  PassBack(*outgoing, context);
  return status;
}

absl::Status Forwarder::HandleStream(
    ServerContext* context,
    verbena::ServerReaderWriter<ByteMessage, ByteMessage>* stream) {
  const std::unique_ptr<ClientContext> outgoing = PassOn(*context);
  const auto backend =
      backend_.BidiStreamingCall(outgoing.get(), context->method());

  // Each direction has its own thread, so neither waits for the other.
  std::thread requests([&] {
    ByteMessage message;
    Buffer attachment;
    while (stream->Read(&message, &attachment) &&
           backend->Write(message, attachment.span())) {
    }
    if (context->IsCancelled()) {
      // The client has not ended its requests in good order. The backend must
      // not take them for complete, so there is no WritesDone().
      outgoing->TryCancel();
    } else {
      backend->WritesDone();
    }
  });
  ByteMessage message;
  Buffer attachment;
  while (backend->Read(&message, &attachment)) {
    if (!stream->Write(message, attachment.span())) outgoing->TryCancel();
  }

  // The backend may have ended the call before the client has sent all.
  stream->StopReading();
  requests.join();
  absl::Status status = backend->Finish();
  PassBack(*outgoing, context);
  return status;
}

}  // namespace generic_proxy
