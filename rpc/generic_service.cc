#include "rpc/generic_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/support/methods.h"

namespace verbena {
namespace {

absl::Status NotOverridden(const ServerContext& context, const char* what) {
  return absl::UnimplementedError(absl::StrCat(
      context.method(), ": the generic service of this server does not handle ",
      what));
}

}  // namespace

GenericService::GenericService()
    : GenericService(
          internal::NewTypedMethod<RpcType::kUnary, ByteMessage, ByteMessage>(
              internal::kGenericName,
              [this](ServerContext* context, const ByteMessage* request,
                     ByteMessage* response) {
                return HandleUnary(context, request, response);
              }),
          internal::NewTypedMethod<RpcType::kBidiStreaming, ByteMessage,
                                   ByteMessage>(
              internal::kGenericName,
              [this](ServerContext* context,
                     ServerReaderWriter<ByteMessage, ByteMessage>* stream) {
                return HandleStream(context, stream);
              })) {}

GenericService::GenericService(
    std::unique_ptr<internal::Method> unary_method,
    std::unique_ptr<internal::Method> streaming_method)
    : unary_method_(std::move(unary_method)),
      streaming_method_(std::move(streaming_method)) {}

GenericService::~GenericService() = default;

absl::Status GenericService::HandleUnary(ServerContext* context,
                                         const ByteMessage* /*request*/,
                                         ByteMessage* /*response*/) {
  return NotOverridden(*context, "unary calls");
}

absl::Status GenericService::HandleStream(
    ServerContext* context,
    ServerReaderWriter<ByteMessage, ByteMessage>* /*stream*/) {
  return NotOverridden(*context, "streams");
}

CallbackGenericService::CallbackGenericService()
    : GenericService(
          internal::NewCallbackMethod<ByteMessage, ByteMessage>(
              internal::kGenericName,
              [this](ServerContext* context, const ByteMessage* request,
                     ByteMessage* response) {
                return CreateUnaryReactor(context, request, response);
              }),
          internal::NewCallbackMethod<internal::NoMessage, internal::NoMessage>(
              internal::kGenericName, [this](ServerContext* context) {
                return CreateReactor(context);
              })) {}

ServerUnaryReactor* CallbackGenericService::CreateUnaryReactor(
    CallbackServerContext* context, const ByteMessage* /*request*/,
    ByteMessage* /*response*/) {
  return new internal::FinishedReactor<ServerUnaryReactor>(
      NotOverridden(*context, "unary calls"));
}

ServerBidiReactor<ByteMessage, ByteMessage>*
CallbackGenericService::CreateReactor(CallbackServerContext* context) {
  return new internal::FinishedReactor<
      ServerBidiReactor<ByteMessage, ByteMessage>>(
      NotOverridden(*context, "streams"));
}

}  // namespace verbena
