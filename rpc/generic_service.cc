#include "rpc/generic_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/support/callback_method.h"
#include "rpc/support/method.h"
#include "rpc/support/typed_method.h"

namespace verbena {
namespace {

// Makes one of the two kinds of method stand for all of its kind.
template <typename TypedMethod>
class GenericMethod final : public TypedMethod {
 public:
  using TypedMethod::TypedMethod;
  bool is_generic() const override { return true; }
};

// Not the name of any method: it is what is said before the name is known.
constexpr char kAnyMethod[] = "generic call";

auto UnaryHandler(GenericService* service) {
  return [service](ServerContext* context, const ByteMessage* request,
                   ByteMessage* response) {
    return service->HandleUnary(context, request, response);
  };
}

auto StreamHandler(GenericService* service) {
  return [service](ServerContext* context,
                   ServerReaderWriter<ByteMessage, ByteMessage>* stream) {
    return service->HandleStream(context, stream);
  };
}

using UnaryMethod = GenericMethod<
    internal::TypedMethod<RpcType::kUnary, ByteMessage, ByteMessage,
                          decltype(UnaryHandler(nullptr))>>;
using StreamingMethod = GenericMethod<
    internal::TypedMethod<RpcType::kBidiStreaming, ByteMessage, ByteMessage,
                          decltype(StreamHandler(nullptr))>>;

auto UnaryReactorHandler(CallbackGenericService* service) {
  return [service](ServerContext* context, const ByteMessage* request,
                   ByteMessage* response) {
    return service->CreateUnaryReactor(context, request, response);
  };
}

auto StreamReactorHandler(CallbackGenericService* service) {
  return [service](ServerContext* context) {
    return service->CreateReactor(context);
  };
}

using UnaryReactorMethod = GenericMethod<internal::CallbackMethod<
    ByteMessage, ByteMessage, decltype(UnaryReactorHandler(nullptr))>>;
using StreamingReactorMethod = GenericMethod<
    internal::CallbackMethod<internal::NoMessage, internal::NoMessage,
                             decltype(StreamReactorHandler(nullptr))>>;

absl::Status NotOverridden(const ServerContext& context, const char* what) {
  return absl::UnimplementedError(
      absl::StrCat(context.method(), ": the server answers no ", what,
                   " of methods that it does not know"));
}

}  // namespace

GenericService::GenericService()
    : unary_method_(
          std::make_unique<UnaryMethod>(kAnyMethod, UnaryHandler(this))),
      streaming_method_(
          std::make_unique<StreamingMethod>(kAnyMethod, StreamHandler(this))) {}

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
    : GenericService(std::make_unique<UnaryReactorMethod>(
                         kAnyMethod, UnaryReactorHandler(this)),
                     std::make_unique<StreamingReactorMethod>(
                         kAnyMethod, StreamReactorHandler(this))) {}

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
