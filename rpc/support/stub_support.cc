#include "rpc/support/stub_support.h"

#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "rpc/internal/call/client_call_state.h"
#include "rpc/internal/client/blocking_stream.h"
#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/reactor_stream.h"
#include "rpc/internal/client/unary_call.h"
#include "rpc/internal/codec/status_text.h"

namespace verbena {

using google::protobuf::MessageLite;
using internal::ChannelImpl;
using internal::StubAccess;
using internal::UnaryCall;

// Keeps the call on this thread's stack. The steps follow ClientCallState:
// reserve, open, close, release.
absl::Status BlockingUnaryCall(Channel& channel, const MethodDescriptor& method,
                               ClientContext* context,
                               const MessageLite& request,
                               MessageLite* response) {
  ChannelImpl* impl = StubAccess::Impl(channel);
  if (ABSL_PREDICT_FALSE(impl == nullptr)) {
    const absl::StatusOr<ChannelImpl*> made = StubAccess::MakeImpl(channel);
    if (!made.ok()) {
      return internal::Annotate(made.status(), method.full_name());
    }
    impl = *made;
  }
  UnaryCall call(impl->calls(), method.full_name(), method.id(), context,
                 internal::ClientCallState::Of(*context).Reserve(), &request,
                 response);
  // A call that could not be prepared has its status, and ends like any other.
  if (call.Prepare(impl->max_send_message_bytes())) impl->Call(&call);
  // Before the context is released, which interceptors may use.
  call.EndInterception();
  call.ReleaseContext();
  return call.TakeStatus();
}

// Makes the call in the memory of its context. From CallAsync() or
// ReportAsync() on, the callback may run at any time.
void AsyncUnaryCall(Channel& channel, const MethodDescriptor& method,
                    ClientContext* context, const MessageLite* request,
                    MessageLite* response, UnaryCallback&& on_done) {
  if (on_done == nullptr) return;
  const absl::StatusOr<ChannelImpl*> impl = StubAccess::MakeImpl(channel);
  if (ABSL_PREDICT_FALSE(!impl.ok())) {
    // Called on this thread, because without a channel there is no other.
    return std::move(on_done)(
        internal::Annotate(impl.status(), method.full_name()));
  }
  UnaryCall* const call =
      UnaryCall::New((*impl)->calls(), method.full_name(), method.id(), context,
                     request, response);
  call->on_done.emplace(std::move(on_done));
  if (call->Prepare((*impl)->max_send_message_bytes())) {
    (*impl)->CallAsync(call);
  } else {
    // Posted, so that the callback does not run inside this function.
    (*impl)->ReportAsync(call);
  }
}

// Only prepares the call. The reactor's StartCall() runs the function.
void BindUnaryReactor(Channel& channel, const MethodDescriptor& method,
                      ClientContext* context, const MessageLite* request,
                      MessageLite* response, ClientUnaryReactor* reactor) {
  if (reactor == nullptr) return;
  StubAccess::SetStart(
      reactor, [&channel, &method, context, request, response, reactor] {
        AsyncUnaryCall(
            channel, method, context, request, response,
            [reactor](const absl::Status& status) { reactor->OnDone(status); });
      });
}

void BindReactor(std::shared_ptr<Channel> channel,
                 const MethodDescriptor& method, ClientContext* context,
                 const MessageLite* request, internal::ClientReactor* reactor,
                 RpcType without_request) {
  if (reactor == nullptr) return;
  const RpcType type =
      request == nullptr ? without_request : RpcType::kServerStreaming;
  // The function owns the channel, and hands it on to the call.
  StubAccess::SetStart(reactor, [channel = std::move(channel), &method, context,
                                 request, reactor, type]() mutable {
    const absl::StatusOr<ChannelImpl*> impl = StubAccess::MakeImpl(*channel);
    if (!impl.ok()) {
      return internal::ReactorStream::EndWithoutCall(
          reactor, internal::Annotate(impl.status(), method.full_name()));
    }
    // Destroys itself.
    auto* const call = new internal::ReactorStream(
        *impl, std::move(channel), method.full_name(), method.id(), context,
        reactor);
    call->Start(type, request);
  });
}

namespace {

// A call that could not even be started.
class Failed final : public ClientStream {
 public:
  explicit Failed(absl::Status status) : status_(std::move(status)) {}

  bool Read(MessageLite* /*message*/, Buffer* /*attachment*/) override {
    return false;
  }
  bool Write(const MessageLite& /*message*/,
             Attachment /*attachment*/) override {
    return false;
  }
  bool WritesDone() override { return false; }
  absl::Status Finish() override { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace

std::unique_ptr<ClientStream> FailedStream(absl::Status status) {
  return std::make_unique<Failed>(std::move(status));
}

std::unique_ptr<ClientStream> StartStream(std::shared_ptr<Channel> channel,
                                          const MethodDescriptor& method,
                                          RpcType type,
                                          ClientContext* context) {
  const absl::StatusOr<ChannelImpl*> impl = StubAccess::MakeImpl(*channel);
  if (!impl.ok()) {
    return FailedStream(internal::Annotate(impl.status(), method.full_name()));
  }
  return std::make_unique<internal::BlockingStream>(*impl, std::move(channel),
                                                    method.full_name(),
                                                    method.id(), type, context);
}

}  // namespace verbena
