#include "rpc/generated/stub_support.h"

#include <utility>

#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/unary_call.h"
#include "rpc/internal/codec/status_text.h"

namespace verbena {

using google::protobuf::MessageLite;
using internal::ChannelImpl;
using internal::UnaryCall;

absl::Status BlockingUnaryCall(Channel& channel, const MethodDescriptor& method,
                               ClientContext* context,
                               const MessageLite& request,
                               MessageLite* response) {
  ChannelImpl& impl = channel.impl();
  if (impl.InCallback()) {
    return internal::Annotate(
        absl::FailedPreconditionError(
            "a blocking call inside a callback of the same channel would wait "
            "for itself; use the asynchronous stub"),
        method.full_name());
  }
  UnaryCall call(impl.calls(), method.full_name(), method.id(), context,
                 &request, response);
  call.ReserveContext();
  absl::Status status = call.Prepare(impl.max_send_message_bytes());
  if (status.ok()) status = impl.Call(&call);
  call.ReleaseContext();
  return status;
}

void AsyncUnaryCall(Channel& channel, const MethodDescriptor& method,
                    ClientContext* context, const MessageLite* request,
                    MessageLite* response, UnaryCallback&& on_done) {
  ChannelImpl& impl = channel.impl();
  UnaryCall* const call =
      UnaryCall::New(impl.calls(), method.full_name(), method.id(), context,
                     request, response);
  call->on_done = std::move(on_done);
  if (absl::Status status = call->Prepare(impl.max_send_message_bytes());
      !status.ok()) {
    return impl.FailAsync(call, std::move(status));
  }
  impl.CallAsync(call);
}

}  // namespace verbena
