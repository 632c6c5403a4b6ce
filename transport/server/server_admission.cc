#include "transport/server/server_admission.h"

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"
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

// Takes one HELLO, then CREDENTIALS while the handshake goes on. Any other
// frame ends the connection.
void ServerAdmission::Handle(absl::Span<const uint8_t> frame) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (handshake_ == nullptr) {
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
                   " before it was authenticated")));
}

// Agrees on options first. Then asks for credentials if the server wants some,
// else lets the client in.
void ServerAdmission::HandleHello(absl::Span<const uint8_t> frame) {
  const absl::StatusOr<std::vector<HelloOption>> client_options =
      DecodeOptions(FrameBody(frame));
  if (!client_options.ok()) {
    connection_.ProtocolError(client_options.status().message());
    return;
  }
  // Sums are agreed on first, because AllowTrains() does nothing with them. The
  // WELCOME confirms both.
  if (const absl::Status status = AgreeOnSums(*client_options); !status.ok()) {
    return connection_.Refuse(status);
  }
  if (connection_.options().trains &&
      FindOption(*client_options, kOptionTrains) != nullptr) {
    connection_.AllowTrains();
  }
  if (FindOption(*client_options, kOptionAddresses) == nullptr) {
    terms_.addresses.reset();
  }
  if (terms_.credentials != nullptr) {
    BeginHandshake(BodyText(frame), *client_options);
  } else {
    Admit("");
  }
}

absl::Status ServerAdmission::AgreeOnSums(
    const std::vector<HelloOption>& client_options) {
  ASSIGN_OR_RETURN(const bool asked, AsksForChecksum(client_options));
  // A seal tells more than a checksum.
  if (terms_.credentials != nullptr && terms_.credentials->seals()) {
    return absl::OkStatus();
  }
  return asked || connection_.options().checksum ? connection_.ExpectSums()
                                                 : absl::OkStatus();
}

void ServerAdmission::BeginHandshake(
    absl::string_view hello_body,
    const std::vector<HelloOption>& client_options) {
  const std::string* const kind =
      FindOption(client_options, kOptionCredentialsKind);
  const std::string* const message =
      FindOption(client_options, kOptionCredentials);
  if (kind == nullptr || message == nullptr ||
      *kind != terms_.credentials->kind()) {
    return connection_.Refuse(
        OtherCredentials(terms_.credentials->kind(), kind));
  }
  // A proof is bound to what both sides have said of themselves.
  hellos_ = HellosText(request_,
                       {.limits = Connection::OwnLimits(connection_.options()),
                        .version = VersionFor(request_)},
                       hello_body);
  handshake_ = terms_.credentials->Begin(connection_.Facts());
  if (handshake_ == nullptr) {
    return connection_.Refuse(NoHandshake());
  }
  HandleCredentials(*message);
}

// Asks the handshake for the answer. CREDENTIALS carry it as long as the client
// is not known, and the WELCOME carries the last one.
void ServerAdmission::HandleCredentials(absl::string_view message) {
  absl::StatusOr<ServerHandshake::Answer> answer =
      handshake_->OnMessage(message, hellos_);
  absl::Status status = answer.status();
  if (status.ok()) status = CheckOwnMessage(answer->message);
  if (status.ok() && answer->seals.opener != nullptr) {
    status = connection_.BeginOpening(std::move(answer->seals.opener));
  }
  if (!status.ok()) return connection_.Refuse(status);
  if (answer->peer == nullptr) {
    sealer_ = std::move(answer->seals.sealer);
    body_ = std::move(answer->message);
    due_ = true;
    return connection_.NoteWaiting();
  }
  if (answer->seals.sealer != nullptr) {
    connection_.BeginSealing(std::move(answer->seals.sealer));
  }
  status = CheckSeals(terms_.credentials->seals(), connection_.sealer(),
                      connection_.opener());
  if (!status.ok()) return connection_.Refuse(status);
  auth_context_ = std::move(answer->peer);
  withdrawn_ = std::move(answer->withdrawn);
  // Abandon() counts the client as unproven as long as these are there.
  terms_.credentials.reset();
  handshake_.reset();
  hellos_ = std::string();
  Admit(EncodeOptions({{kOptionCredentials, std::move(answer->message)}}));
}

void ServerAdmission::Admit(std::string welcome) {
  // Before the WELCOME is sent, because SendDue() tells by the state which
  // frame is due.
  connection_.Transition(ConnectionState::kOpen);
  body_ = std::move(welcome);
  if (connection_.expects_sums()) {
    body_ += EncodeOptions({{kOptionChecksum, kChecksumKind}});
  }
  if (connection_.allows_trains()) {
    body_ += EncodeOptions({{kOptionTrains, ""}});
  }
  if (connection_.options().method_names) {
    body_ += EncodeOptions({{kOptionMethodNames, ""}});
  }
  if (terms_.addresses != nullptr) {
    body_ += EncodeOptions({{kOptionAddresses, *terms_.addresses}});
  }
  due_ = true;
  connection_.NoteWaiting();
}

// Sends the frame if there is a credit. If not, SendWaiting() comes back here.
bool ServerAdmission::SendDue() {
  const bool welcome = connection_.usable();
  FrameHeader header = Connection::PlainHeader(
      welcome ? FrameType::kWelcome : FrameType::kCredentials, 0);
  header.body_bytes = static_cast<uint32_t>(body_.size());
  const auto bytes = static_cast<uint32_t>(sizeof(header) + body_.size());
  uint8_t* const out = connection_.BeginFrame(bytes, /*spare_credits=*/0);
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  if (!body_.empty()) {
    std::memcpy(out + sizeof(header), body_.data(), body_.size());
  }
  due_ = false;
  body_ = std::string();
  connection_.Send(bytes);
  if (sealer_ != nullptr) connection_.BeginSealing(std::move(sealer_));
  if (!connection_.usable()) return false;
  // Every frame behind the WELCOME has sums, but the WELCOME has none.
  if (connection_.expects_sums()) connection_.BeginSums();
  return true;
}

bool ServerAdmission::Abandon() {
  handshake_.reset();
  return std::exchange(terms_.credentials, nullptr) != nullptr;
}

}  // namespace verbena::transport
