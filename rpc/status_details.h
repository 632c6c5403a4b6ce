// Details: messages that a status carries beside its code and text.
//
//   absl::Status status = absl::InvalidArgumentError("no such quota");
//   AddStatusDetail(&status, violation);  // A google.rpc.QuotaFailure, say.
//   return status;                         // In the handler.
//
//   // At the client:
//   const auto violation = GetStatusDetail<QuotaFailure>(status);
//
// Details are payloads of absl::Status, one for each type of message, and
// travel with the status of any call, as gRPC sends them: as a
// google.rpc.Status in the trailing metadata, under kStatusDetailsKey, where
// the client finds them as well. There they count against the client's limit of
// metadata (metadata.h). If they are too much, all details are left out, and
// the status arrives without them. If a handler itself adds metadata of that
// key, these are sent instead.

#ifndef VERBENA_RPC_STATUS_DETAILS_H_
#define VERBENA_RPC_STATUS_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace verbena {

inline constexpr char kStatusDetailsKey[] = "grpc-status-details-bin";

// Returns the URL by which google.protobuf.Any names the type of `message`.
inline std::string StatusDetailUrl(
    const google::protobuf::MessageLite& message) {
  return absl::StrCat("type.googleapis.com/", message.GetTypeName());
}

// Adds `detail` to `*status`; takes the place of one of the same type. Does
// nothing to a status that is OK, which has none.
inline void AddStatusDetail(absl::Status* status,
                            const google::protobuf::MessageLite& detail) {
  status->SetPayload(StatusDetailUrl(detail),
                     absl::Cord(detail.SerializePartialAsString()));
}

// Returns the detail of that type; nothing if there is none, or if its bytes
// are not those of such a message.
template <typename Message>
std::optional<Message> GetStatusDetail(const absl::Status& status) {
  Message message;
  const auto payload = status.GetPayload(StatusDetailUrl(message));
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return message;
}

bool HasStatusDetails(const absl::Status& status);

// Convert a status with its details to the bytes of a google.rpc.Status
// (google/rpc/status.proto), with details in the order of their types, and
// back. INVALID_ARGUMENT if the bytes are not of that message. Neither needs
// that message to be linked.
std::string ToGoogleRpcStatus(const absl::Status& status);
absl::Status FromGoogleRpcStatus(absl::string_view bytes, absl::Status* status);

// Adds the details in the bytes of a google.rpc.Status to
// `*status`. Does not change its code. Its message is replaced only if a
// RESPONSE had no room for more than its beginning. Other bytes add nothing.
void TakeStatusDetails(absl::string_view bytes, absl::Status* status);

}  // namespace verbena

#endif  // VERBENA_RPC_STATUS_DETAILS_H_
