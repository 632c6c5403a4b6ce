// A call of a server, as its ServerContext sees it.

#ifndef VERBENA_RPC_INTERNAL_CALL_SERVER_CALL_STATE_H_
#define VERBENA_RPC_INTERNAL_CALL_SERVER_CALL_STATE_H_

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "rpc/buffer.h"
#include "rpc/metadata.h"

namespace verbena {

class ServerUnaryReactor;

namespace transport {
class AuthContext;
}  // namespace transport

namespace internal {

// Goes with the messages of a call, both ways.
struct ServerCallData {
  absl::Time due = absl::InfiniteFuture();  // By base::Now().
  Metadata client_metadata;
  Metadata initial_metadata;
  Metadata trailing_metadata;
  bool sent_initial_metadata = false;
  Buffer request_attachment;
  Buffer response_attachment;

  // Makes this ready for another call.
  void Reset(absl::Time new_due) {
    due = new_due;
    if (!client_metadata.empty()) client_metadata.clear();
    if (!trailing_metadata.empty()) trailing_metadata.clear();
    if (!initial_metadata.empty()) initial_metadata.clear();
    sent_initial_metadata = false;
  }
  // Whether nothing but a message goes with a good answer.
  bool sends_no_metadata() const {
    return trailing_metadata.empty() && initial_metadata.empty() &&
           !sent_initial_metadata;
  }
  // Whether initial metadata were not sent yet, even if there are none. Marks
  // them as sent.
  bool TakeInitialMetadata() {
    return !std::exchange(sent_initial_metadata, true);
  }
  // Gives memory back that nobody took.
  void DropAttachments() {
    request_attachment.Reset();
    response_attachment.Reset();
  }
};

// For the threads see ServerContext.
class ServerCallState {
 public:
  ServerCallState() = default;
  ServerCallState(const ServerCallState&) = delete;
  ServerCallState& operator=(const ServerCallState&) = delete;

  ServerCallData& data() { return data_; }
  const ServerCallData& data() const { return data_; }

  // See the functions of ServerContext that have these names.
  virtual bool IsCancelled() const = 0;
  virtual std::stop_token stop_token() = 0;
  virtual void SendInitialMetadata() = 0;
  virtual ServerUnaryReactor* DefaultReactor() = 0;
  virtual const std::string& method() const = 0;
  virtual const std::string& peer() const = 0;
  virtual const std::string& device() const = 0;
  virtual std::shared_ptr<const transport::AuthContext> auth_context()
      const = 0;
  virtual Buffer AllocateBuffer(size_t bytes) const = 0;

 protected:
  ~ServerCallState() = default;

 private:
  ServerCallData data_;
};

}  // namespace internal

}  // namespace verbena

#endif  // VERBENA_RPC_INTERNAL_CALL_SERVER_CALL_STATE_H_
