#include "transport/client/request_sender.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/base/limits.h"

namespace verbena::transport {
namespace {

absl::Status TooLarge(absl::string_view what, uint64_t bytes,
                      absl::string_view limit, uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " of ", bytes, " bytes is larger than ", limit, ", ", most));
}

}  // namespace

void RequestSender::Open() {
  // Both limits, and what a frame has room for.
  small_bytes_max_ =
      std::min({connection_.options().max_send_message_bytes,
                uint64_t{connection_.peer_limits().max_receive_message_bytes},
                uint64_t{connection_.SendRoom() - sizeof(RequestHeader)}});
  small_metadata_max_ = std::min(kFrameMetadataBytes,
                                 connection_.peer_limits().max_metadata_bytes);
  accepts_ = true;
}

// Refuses what a limit forbids, then sends the call or has it wait. No call
// overtakes those of its line, or they might wait for ever.
void RequestSender::Start(ClientCall* call) {
  if (const absl::Status refusal = Refusal(call->request()); !refusal.ok()) {
    return call->OnFailed(refusal);
  }
  call->link().fits_frame = Place(call->request()).all_inline();
  if (shared_.LineOf(*call).empty() && SendAny(call)) return;
  // Sending may have lost the connection.
  if (!connection_.failure().ok()) {
    DropMetadata(call);
    return call->OnUnsent(connection_.failure());
  }
  Wait(call);
}

void RequestSender::Cancel(ClientCall* call, const absl::Status& reason) {
  shared_.LineOf(*call).Remove(call);
  call->link().slot = ClientCall::Link::kIdle;
  // Its METADATA may have taken a slot, which the call will not use.
  DropMetadata(call);
  call->OnFailed(reason);
}

void RequestSender::ReturnUnsent(const absl::Status& why) {
  for (base::IntrusiveList<ClientCall>* line :
       {&shared_.waiting_small, &shared_.waiting_large}) {
    while (!line->empty()) {
      ClientCall* const call = line->front();
      // Out of the line first, because OnUnsent() may destroy the call.
      line->Remove(call);
      call->link().slot = ClientCall::Link::kIdle;
      DropMetadata(call);
      call->OnUnsent(why);
    }
  }
}

// Looks at all that wait: deadlines are in no order. Those that stay note their
// deadlines anew.
void RequestSender::EndExpired(absl::Time now) {
  for (base::IntrusiveList<ClientCall>* line :
       {&shared_.waiting_small, &shared_.waiting_large}) {
    ClientCall* call = line->front();
    while (call != nullptr) {
      if (call->request().deadline > now) {
        shared_.NoteDeadline(call->request().deadline);
        call = line->Next(call);
        continue;
      }
      const absl::Status unsent = NeverSent(line == &shared_.waiting_large);
      unsent_.Say(absl::StrCat("a call to ", connection_.peer(), ": ",
                               unsent.message()));
      Cancel(call, unsent);
      // Its OnFailed() may have changed the line: begin again.
      call = line->front();
    }
  }
}

// Compares the call with the limits of both sides before it takes anything.
// Each error names the option that would have to be raised.
absl::Status RequestSender::Refusal(const ClientCall::Request& request) const {
  const EndpointOptions& options = connection_.options();
  const uint64_t metadata_bytes =
      request.metadata_bytes + request.long_metadata.size();
  const uint32_t metadata_max = connection_.peer_limits().max_metadata_bytes;
  if (metadata_bytes > metadata_max) {
    return TooLarge("metadata", metadata_bytes,
                    absl::StrCat("the limit of the server ", connection_.peer(),
                                 " (SetMaxMetadataSize there)"),
                    metadata_max);
  }
  const uint64_t bytes = request.message_bytes + request.attachment.size();
  if (bytes > options.max_send_message_bytes) {
    return TooLarge("a request", bytes, "this client's max_send_message_bytes",
                    options.max_send_message_bytes);
  }
  const uint64_t most = connection_.peer_limits().max_receive_message_bytes;
  if (bytes > most) {
    return TooLarge("a request", bytes,
                    absl::StrCat("the limit of the server ", connection_.peer(),
                                 " (SetMaxReceiveMessageSize there)"),
                    most);
  }
  return absl::OkStatus();
}

absl::Status RequestSender::NeverSent(bool large) const {
  std::string cause;
  if (shared_.slots.full()) {
    cause = absl::StrCat("all ", shared_.slots.size(),
                         " calls that the connection may have open at once "
                         "were in use: calls block at the server, or the limit "
                         "is too low (ChannelOptions::max_concurrent_calls and "
                         "ServerBuilder::SetMaxConcurrentCallsPerConnection)");
  } else if (large) {
    cause =
        "memory for large messages or credits were short "
        "(ChannelOptions::max_arena_bytes)";
  } else {
    cause = "the server gave no credit";
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline of the call has passed before it was sent: ", cause));
}

}  // namespace verbena::transport
