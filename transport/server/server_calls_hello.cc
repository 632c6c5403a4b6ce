// ServerCalls: from the HELLO to the WELCOME.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"
#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

absl::string_view BodyText(absl::Span<const uint8_t> frame) {
  const absl::Span<const uint8_t> body = FrameBody(frame);
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

// `offered` is null if the client has none.
absl::Status OtherCredentials(absl::string_view wanted,
                              const std::string* offered) {
  return absl::UnauthenticatedError(absl::StrCat(
      "this server wants credentials of the kind ", wanted,
      ", and the client has ",
      offered == nullptr ? "none"
                         : absl::StrCat("those of the kind ",
                                        absl::Utf8SafeCHexEscape(*offered))));
}

}  // namespace

void ServerCalls::HandleOpening(absl::Span<const uint8_t> frame) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  const bool greeted =
      admission_ != nullptr && admission_->handshake != nullptr;
  if (!greeted) {
    if (type == FrameType::kHello) return HandleHello(frame);
    return connection_.ProtocolError("it sent something before its HELLO");
  }
  if (type == FrameType::kCredentials) {
    return HandleCredentials(BodyText(frame));
  }
  if (type == FrameType::kHello) {
    return connection_.ProtocolError("it sent a second HELLO");
  }
  connection_.Refuse(absl::UnauthenticatedError(
      absl::StrCat("the client sent ", FrameTypeName(type),
                   " before it had proven who it is")));
}

void ServerCalls::HandleHello(absl::Span<const uint8_t> frame) {
  const absl::StatusOr<std::vector<HelloOption>> client_options =
      DecodeOptions(FrameBody(frame));
  if (!client_options.ok()) {
    connection_.ProtocolError(client_options.status().message());
    return;
  }
  if (const absl::Status status = AgreeOnSums(*client_options); !status.ok()) {
    return connection_.Refuse(status);
  }
  if (connection_.options().trains &&
      FindOption(*client_options, kOptionTrains) != nullptr) {
    connection_.AllowTrains();
  }
  if (admission_ != nullptr) {
    BeginHandshake(BodyText(frame), *client_options);
  } else {
    Admit("");
  }
}

absl::Status ServerCalls::AgreeOnSums(
    const std::vector<HelloOption>& client_options) {
  ASSIGN_OR_RETURN(const bool asked, AsksForChecksum(client_options));
  return asked || connection_.options().checksum ? connection_.ExpectSums()
                                                 : absl::OkStatus();
}

void ServerCalls::BeginHandshake(
    absl::string_view hello_body,
    const std::vector<HelloOption>& client_options) {
  const ServerCredentials& credentials = *admission_->credentials;
  const std::string* const kind =
      FindOption(client_options, kOptionCredentialsKind);
  const std::string* const message =
      FindOption(client_options, kOptionCredentials);
  if (kind == nullptr || message == nullptr || *kind != credentials.kind()) {
    return connection_.Refuse(OtherCredentials(credentials.kind(), kind));
  }
  admission_->hellos =
      HellosText(admission_->request,
                 {Connection::OwnLimits(connection_.options())}, hello_body);
  admission_->handshake = credentials.Begin(connection_.Facts());
  if (admission_->handshake == nullptr) {
    return connection_.Refuse(NoHandshake());
  }
  HandleCredentials(*message);
}

void ServerCalls::HandleCredentials(absl::string_view message) {
  absl::StatusOr<ServerHandshake::Answer> answer =
      admission_->handshake->OnMessage(message, admission_->hellos);
  absl::Status status = answer.status();
  if (status.ok()) status = CheckOwnMessage(answer->message);
  if (!status.ok()) return connection_.Refuse(status);
  if (answer->peer == nullptr) {
    opening_ = std::move(answer->message);
    opening_due_ = true;
    return connection_.NoteWaiting();
  }
  auth_context_ = std::move(answer->peer);
  withdrawn_ = std::move(answer->withdrawn);
  admission_.reset();
  Admit(EncodeOptions({{kOptionCredentials, std::move(answer->message)}}));
}

void ServerCalls::Admit(std::string welcome) {
  connection_.Transition(ConnectionState::kOpen);
  opening_ = std::move(welcome);
  if (connection_.expects_sums()) {
    opening_ += EncodeOptions({{kOptionChecksum, kChecksumKind}});
  }
  if (connection_.allows_trains()) {
    opening_ += EncodeOptions({{kOptionTrains, ""}});
  }
  if (connection_.options().method_names) {
    opening_ += EncodeOptions({{kOptionMethodNames, ""}});
  }
  opening_due_ = true;
  connection_.NoteWaiting();
}

void ServerCalls::SendOpening() {
  FrameHeader header = Connection::PlainHeader(
      connection_.usable() ? FrameType::kWelcome : FrameType::kCredentials, 0);
  header.body_bytes = static_cast<uint32_t>(opening_.size());
  const auto bytes = static_cast<uint32_t>(sizeof(header) + opening_.size());
  uint8_t* const out = connection_.BeginFrame(bytes, /*spare_credits=*/0);
  if (out == nullptr) return;
  std::memcpy(out, &header, sizeof(header));
  if (!opening_.empty()) {
    std::memcpy(out + sizeof(header), opening_.data(), opening_.size());
  }
  opening_due_ = false;
  opening_ = std::string();
  connection_.Send(bytes);
  if (!connection_.usable()) return;
  if (connection_.expects_sums()) connection_.BeginSums();
  // Both limits, and what a frame has room for.
  plain_reply_max_ =
      std::min({connection_.options().max_send_message_bytes,
                uint64_t{connection_.peer_limits().max_receive_message_bytes},
                RoomForReply()});
}

}  // namespace verbena::transport
