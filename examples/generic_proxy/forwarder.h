// Forwards calls of any method to another server.

#ifndef VERBENA_EXAMPLES_GENERIC_PROXY_FORWARDER_H_
#define VERBENA_EXAMPLES_GENERIC_PROXY_FORWARDER_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "rpc/byte_message.h"
#include "rpc/channel.h"
#include "rpc/generic_service.h"
#include "rpc/generic_stub.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"

namespace generic_proxy {

// Passes on everything that a call carries in both directions: messages,
// attachments, metadata, the deadline, cancellation, and the status.
class Forwarder final : public verbena::GenericService {
 public:
  explicit Forwarder(std::shared_ptr<verbena::Channel> backend)
      : backend_(std::move(backend)) {}

  absl::Status HandleUnary(verbena::ServerContext* context,
                           const verbena::ByteMessage* request,
                           verbena::ByteMessage* response) override;
  absl::Status HandleStream(
      verbena::ServerContext* context,
      verbena::ServerReaderWriter<verbena::ByteMessage, verbena::ByteMessage>*
          stream) override;

 private:
  const verbena::GenericStub backend_;
};

}  // namespace generic_proxy

#endif  // VERBENA_EXAMPLES_GENERIC_PROXY_FORWARDER_H_
