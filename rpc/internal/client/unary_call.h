// A unary call of a client, from the stub to the transport and back.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_
#define VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/optimization.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "rpc/client_context.h"
#include "rpc/internal/client/hedging.h"
#include "rpc/internal/client/open_call.h"
#include "transport/client/client_call.h"
#include "transport/polling/poller_threads.h"

namespace verbena::internal {

// A call of one message each way.
//
// A blocking one lives on the stack of its thread, an asynchronous one in its
// context (on the heap if another call has that). Its callback is called
// without the poller's ownership. The context, the messages and the name must
// outlive it.
class UnaryCall final : public OpenCall, private Hedge::Owner {
 public:
  UnaryCall(OpenCalls* calls, const char* method_name, uint64_t method_id,
            ClientContext* context, bool has_context,
            const google::protobuf::MessageLite* message,
            google::protobuf::MessageLite* reply)
      : OpenCall(calls, method_name, method_id, context, has_context,
                 /*streams=*/false),
        message_(message),
        reply_(reply) {}
  ~UnaryCall() = default;

  // Makes an asynchronous call, and reserves the context for it. The owner of
  // what it returns calls Destroy().
  static UnaryCall* New(OpenCalls* calls, const char* method_name,
                        uint64_t method_id, ClientContext* context,
                        const google::protobuf::MessageLite* message,
                        google::protobuf::MessageLite* reply);
  // Destroys a call that New() made. The context is free afterwards.
  void Destroy();

  // Measures the message and opens the context. Returns whether that worked. If
  // it did not (also because another call has the context), the call is over
  // and has its status.
  bool Prepare(uint64_t max_message_bytes);

  // The call has ended: tells the interceptors, which may change the status.
  // Once, on a thread of the caller's, before the context is released.
  void EndInterception() {
    if (ABSL_PREDICT_FALSE(interception() != nullptr)) TellInterceptorsOfEnd();
  }

  // As Task.
  void Run() override;

  // As the transport's call.
  void WriteRequest(uint8_t* out) override;
  void OnResponse(const transport::CallResponse& response) override;
  void OnFailed(const absl::Status& status) override {
    answered_ = false;  // An attempt before this one may have been.
    OpenCall::OnFailed(status);
  }

  // As OpenCall: of an asynchronous one.
  void Report() override;

  // As the owner of its hedge.
  Picked PickForHedge(absl::Span<PickedServer* const> avoided,
                      absl::Status* why_not) override;
  bool HedgesAllowed(bool failed) override;
  bool WakeHedgeAt(absl::Time time) override;
  void PostHedge(transport::Task* task) override;
  void SettleHedge() override;
  void CancelFirst(const absl::Status& why) override;
  const Request& HedgedRequest() const override { return request_; }
  absl::Status WriteHedgeHead(int previous, bool named,
                              std::string* head) const override;
  void WriteHedgeBody(uint8_t* out) override;
  void TakeHedgeResponse(transport::ClientConnection* at,
                         absl::Span<const uint8_t> initial_metadata,
                         const transport::CallResponse& response) override;
  void TakeHedgeFailure(const absl::Status& status) override;
  Hedge::Owner* hedge_owner() override { return this; }

  // Told of the end of an asynchronous call; a blocking one has none.
  std::optional<absl::AnyInvocable<void(absl::Status)>> on_done;

 private:
  // Returns false if an interceptor is against the call.
  bool TellInterceptorsOfStart();
  void TellInterceptorsOfEnd();
  // Takes an answer that is the call's.
  void TakeResponse(const transport::CallResponse& response);
  // On the background thread, or where the reply was parsed: calls on_done,
  // before which it destroys this.
  void CallBack();

  const google::protobuf::MessageLite* const message_;
  google::protobuf::MessageLite* const reply_;
  bool answered_ = false;  // The server's RESPONSE is being handled, or was.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_UNARY_CALL_H_
