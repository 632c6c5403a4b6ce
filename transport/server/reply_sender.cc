#include "transport/server/reply_sender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace verbena::transport {
namespace {

absl::Status TooLarge(uint64_t bytes, absl::string_view limit, uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "a reply of ", bytes, " bytes is larger than ", limit, ", ", most));
}

}  // namespace

void ReplySender::OnOpen() {
  plain_message_max_ = std::min(
      {connection_.options().max_send_message_bytes,
       uint64_t{connection_.peer_limits().max_receive_message_bytes}, Room()});
}

// Compares the reply with the limits of both sides. Each error names the limit
// that would have to be raised.
absl::Status ReplySender::Check(const ServerReply& reply) const {
  absl::Status status = metadata_.Check(
      "trailing", reply.metadata_bytes + reply.long_metadata.size());
  if (!status.ok()) return status;
  const uint64_t bytes = reply.message_bytes + reply.attachment.size();
  const uint64_t own = connection_.options().max_send_message_bytes;
  if (bytes > own) {
    return TooLarge(bytes, "the server's limit (SetMaxSendMessageSize)", own);
  }
  const uint64_t clients = connection_.peer_limits().max_receive_message_bytes;
  if (bytes > clients) {
    return TooLarge(bytes, "the client's max_receive_message_bytes", clients);
  }
  return absl::OkStatus();
}

void ReplySender::Refuse(ServerCall* call, absl::Status status) {
  SetRefusal(call, std::move(status));
  QueueFrame(call, ServerCallState::kReplyQueued);
}

void ReplySender::RefuseUnprocessed(ServerCall* call) {
  call->reply().unprocessed = true;
  Refuse(call, absl::UnavailableError("the server is shutting down"));
}

// Gives back all memory of the call, because an error has neither message
// nor attachment.
void ReplySender::SetRefusal(ServerCall* call, absl::Status status) {
  call->request().Release();
  CallReply& reply = call->reply();
  reply.Release();
  reply.content.status = std::move(status);
  reply.attachment_bytes = 0;
  reply.written = false;
}

// The call keeps its place in the line: only the frame is another.
void ReplySender::RefuseQueued(ServerCall* call, absl::Status status) {
  SetRefusal(call, std::move(status));
  call->Transition(ServerCallState::kReplyQueued);
}

}  // namespace verbena::transport
