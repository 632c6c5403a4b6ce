#include "transport/client/client_admission.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

constexpr char kUserAgent[] = "verbena-cpp/0.1";

absl::string_view BodyText(absl::Span<const uint8_t> frame) {
  const absl::Span<const uint8_t> body = FrameBody(frame);
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

}  // namespace

absl::Status ClientAdmission::Begin(const ConnectRequest& request,
                                    const ConnectReply& reply) {
  std::vector<HelloOption> options = {{kOptionUserAgent, kUserAgent}};
  if (connection_.options().checksum) {
    options.push_back({kOptionChecksum, kChecksumKind});
  }
  if (connection_.options().trains) options.push_back({kOptionTrains, ""});
  const ClientCredentials* const credentials =
      connection_.options().credentials.get();
  if (credentials != nullptr) {
    handshake_ = credentials->Begin(connection_.Facts());
    if (handshake_ == nullptr) return NoHandshake();
    ASSIGN_OR_RETURN(std::string hello, handshake_->Hello());
    RETURN_IF_ERROR(CheckOwnMessage(hello));
    options.push_back(
        {kOptionCredentialsKind, std::string(credentials->kind())});
    options.push_back({kOptionCredentials, std::move(hello)});
  }
  const std::string body = EncodeOptions(options);
  if (credentials != nullptr) hellos_ = HellosText(request, reply, body);
  if (connection_.device().limits().iwarp) {
    next_nudge_ = base::Now() + nudge_pause_;
  }
  return Send(FrameType::kHello, body);
}

absl::Status ClientAdmission::Send(FrameType type, absl::string_view body) {
  FrameHeader header = Connection::PlainHeader(type, 0);
  header.body_bytes = static_cast<uint32_t>(body.size());
  const uint32_t bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  uint8_t* const out = connection_.BeginFrame(bytes, /*spare_credits=*/0);
  if (out == nullptr) {
    return absl::InternalError(absl::StrCat("the server ", connection_.peer(),
                                            " grants no credit for a ",
                                            FrameTypeName(type)));
  }
  std::memcpy(out, &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(out + sizeof(header), body.data(), body.size());
  }
  connection_.Send(bytes);
  return connection_.failure();
}

// siw overlooks bytes that arrive while it sets up the server's end, until the
// next bytes arrive. An empty WRITE makes it see the HELLO.
void ClientAdmission::Nudge(absl::Time now) {
  next_nudge_ = absl::InfiniteFuture();
  if (connection_.state() != ConnectionState::kConnecting) return;
  nudge_pause_ = std::min(2 * nudge_pause_, kLongestNudge);
  next_nudge_ = now + nudge_pause_;
  SendQueue& queue = connection_.send_queue();
  if (!queue.HasBulkRoom()) return;
  const int error = queue.PostEmptyWrite();
  if (error != 0) connection_.FailPostSlow(error);
}

bool ClientAdmission::Handle(absl::Span<const uint8_t> frame) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (type == FrameType::kWelcome) return HandleWelcome(frame);
  if (type == FrameType::kCredentials && handshake_ != nullptr) {
    HandleCredentials(frame);
  } else {
    connection_.ProtocolError("it sent something before its WELCOME");
  }
  return false;
}

void ClientAdmission::HandleCredentials(absl::Span<const uint8_t> frame) {
  const absl::StatusOr<std::string> answer =
      handshake_->Answer(BodyText(frame), hellos_);
  absl::Status status = answer.status();
  if (status.ok()) status = CheckOwnMessage(*answer);
  if (status.ok()) status = Send(FrameType::kCredentials, *answer);
  if (!status.ok()) connection_.Refuse(status);
}

bool ClientAdmission::HandleWelcome(absl::Span<const uint8_t> frame) {
  const absl::StatusOr<std::vector<HelloOption>> server_options =
      DecodeOptions(FrameBody(frame));
  if (!server_options.ok()) {
    connection_.ProtocolError(server_options.status().message());
    return false;
  }
  absl::Status status = CheckServer(*server_options);
  if (status.ok()) status = AgreeOnSums(*server_options);
  if (!status.ok()) {
    connection_.Refuse(status);
    return false;
  }
  wants_method_names_ = FindOption(*server_options, kOptionMethodNames);
  if (connection_.options().trains &&
      FindOption(*server_options, kOptionTrains) != nullptr) {
    connection_.AllowTrains();
  }
  connection_.Transition(ConnectionState::kOpen);
  return true;
}

absl::Status ClientAdmission::AgreeOnSums(
    const std::vector<HelloOption>& server_options) {
  ASSIGN_OR_RETURN(const bool has, AsksForChecksum(server_options));
  if (has) {
    RETURN_IF_ERROR(connection_.ExpectSums());
    connection_.BeginSums();
  } else if (connection_.options().checksum) {
    return absl::FailedPreconditionError(
        absl::StrCat("this client wants checksums, and the server ",
                     connection_.peer(), " does not confirm them"));
  }
  return absl::OkStatus();
}

absl::Status ClientAdmission::CheckServer(
    const std::vector<HelloOption>& server_options) {
  if (handshake_ == nullptr) return absl::OkStatus();
  const std::string* const message =
      FindOption(server_options, kOptionCredentials);
  if (message == nullptr) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the server ", connection_.peer(),
        " has no credentials, and this client wants to see those of the kind ",
        connection_.options().credentials->kind()));
  }
  RETURN_IF_ERROR(handshake_->Finish(*message, hellos_));
  handshake_.reset();
  hellos_ = std::string();
  return absl::OkStatus();
}

}  // namespace verbena::transport
