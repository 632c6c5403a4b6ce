// Makes the reply of a call from what its handler has left.

#ifndef VERBENA_RPC_INTERNAL_SERVER_REPLY_BUILDER_H_
#define VERBENA_RPC_INTERNAL_SERVER_REPLY_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "rpc/internal/server/call_state.h"
#include "rpc/internal/server/kept_messages.h"
#include "rpc/metadata.h"
#include "transport/server/server_call.h"

namespace verbena::internal {

// Limits on what the handlers of a server may answer.
struct ReplyLimits {
  uint64_t message_bytes;  // Longer ones end the call with an error.
  size_t status_bytes;     // Longer status messages are cut.
};

// Serves one call at a time: the handler's thread until the handler has ended,
// then the poller.
class ReplyBuilder {
 public:
  // All must outlive it.
  ReplyBuilder(CallState* state, KeptMessages* messages,
               const ReplyLimits& limits)
      : state_(*state), messages_(*messages), limits_(limits) {}

  // Makes this ready for another call.
  void Reset() {
    // Take() has moved the rest away.
    reply_.status = absl::OkStatus();
    reply_.metadata_bytes = 0;
    reply_.message_bytes = 0;
    reply_.writer = nullptr;
  }

  // The status with which the call ends, as far as it is known.
  const absl::Status& status() const { return reply_.status; }
  void set_status(absl::Status status) { reply_.status = std::move(status); }

  // Takes message and attachment of a handler that has returned OK. Returns
  // false if they can't be sent: then the call has failed.
  bool TakeMessage();
  // Serialises a large message now, if there is memory.
  void WriteAhead();
  // Writes the reply into a RESPONSE, for ServerCall::SendReply(), if it is a
  // message and nothing else and can go at once. Returns whether it was.
  bool WritePlain();
  // Adds what else goes with the reply. Whatever the client can't take becomes
  // an error.
  void Complete();

  // The bytes of message and attachment.
  uint64_t bytes() const {
    return reply_.message_bytes + reply_.attachment.size();
  }
  // Whether WriteTo() is still to be called for the reply.
  bool is_unwritten() const {
    return reply_.buffer.empty() &&
           reply_.metadata_bytes + reply_.message_bytes > 0;
  }
  // Returns the reply for the transport, which has `writer` call WriteTo().
  transport::ServerCall::Reply Take(transport::ReplyWriter* writer) {
    reply_.writer = writer;
    return std::move(reply_);
  }
  // Writes metadata and message. The lengths are those of the last reply that
  // was taken.
  void WriteTo(uint8_t* out) const;

 private:
  // Says what goes with the reply beside its message.
  void PlaceMetadata();
  void PlaceTrailingMetadata();
  // Adds to the trailing metadata what the RESPONSE has no room for of the
  // error.
  void PlaceStatus();
  // Adds the payloads of the error, if it has any and the client takes so much.
  void AddStatusDetails();
  // Whether the details, if there are any, have all of the message too.
  bool DetailsHaveMessage() const;
  // Adds the rest of a long message, as much as the client takes.
  void AddStatusRest();
  Metadata& trailing() const { return state_.data().trailing_metadata; }

  CallState& state_;
  KeptMessages& messages_;
  const ReplyLimits limits_;
  // The lengths stay until the next call, because WriteTo() needs them.
  transport::ServerCall::Reply reply_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_REPLY_BUILDER_H_
