// The interface through which interceptors see the messages of a call.

#ifndef VERBENA_RPC_INTERNAL_STREAM_MESSAGE_HOOKS_H_
#define VERBENA_RPC_INTERNAL_STREAM_MESSAGE_HOOKS_H_

#include "google/protobuf/message_lite.h"

namespace verbena::internal {

// The interceptors of either side, as a stream sees them. One thread may be in
// the first function while another is in the second.
class MessageHooks {
 public:
  // A message is about to be sent.
  virtual void OnSendMessage(const google::protobuf::MessageLite& message) = 0;
  // A message has come; may change it.
  virtual void OnReceiveMessage(google::protobuf::MessageLite* message) = 0;

 protected:
  ~MessageHooks() = default;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_STREAM_MESSAGE_HOOKS_H_
