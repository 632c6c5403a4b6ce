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

// Lists in the HELLO what this side wants, and keeps the text of both hellos if
// credentials are to be bound to it.
absl::Status ClientAdmission::Begin(const ConnectRequest& request,
                                    const ConnectReply& reply) {
  std::vector<HelloOption> options = {{kOptionUserAgent, kUserAgent}};
  const ClientCredentials* const credentials =
      connection_.options().credentials.get();
  // A seal tells more than a checksum.
  if (connection_.options().checksum &&
      (credentials == nullptr || !credentials->seals())) {
    options.push_back({kOptionChecksum, kChecksumKind});
  }
  if (connection_.options().trains) options.push_back({kOptionTrains, ""});
  if (connection_.options().ask_addresses) {
    options.push_back({kOptionAddresses, ""});
  }
  if (credentials != nullptr) {
    PeerFacts facts = connection_.Facts();
    facts.name = connection_.options().server_name;
    if (facts.name.empty()) {
      facts.name = connection_.id().PeerAddress().HostString();
    }
    handshake_ = credentials->Begin(facts);
    if (handshake_ == nullptr) return NoHandshake();
    ASSIGN_OR_RETURN(std::string hello, handshake_->Hello());
    RETURN_IF_ERROR(CheckOwnMessage(hello));
    options.push_back(
        {kOptionCredentialsKind, std::string(credentials->kind())});
    options.push_back({kOptionCredentials, std::move(hello)});
  }
  const std::string body = EncodeOptions(options);
  // A proof is bound to what both sides have said of themselves, the arena's
  // key included.
  if (credentials != nullptr) hellos_ = HellosText(request, reply, body);
  if (connection_.device().limits().iwarp) {
    next_nudge_ = base::Now() + nudge_pause_;
  }
  return Send(FrameType::kHello, body);
}

// Sends a frame of the handshake at once or fails. The server's private data
// have granted a credit, and so has each frame that is answered.
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
  // Sending may lose the connection, whose failure() then says why.
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
  // A server asks for more only if the HELLO had credentials.
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
  Seals seals;
  if (status.ok()) seals = handshake_->TakeSeals();
  if (seals.opener != nullptr) {
    status = connection_.BeginOpening(std::move(seals.opener));
  }
  if (status.ok()) status = Send(FrameType::kCredentials, *answer);
  if (!status.ok()) return connection_.Refuse(status);
  if (seals.sealer != nullptr) {
    connection_.BeginSealing(std::move(seals.sealer));
  }
}

// Checks who the server is before anything else of its WELCOME counts. No call
// may start before kOpen, the last step.
bool ClientAdmission::HandleWelcome(absl::Span<const uint8_t> frame) {
  const absl::StatusOr<std::vector<HelloOption>> server_options =
      DecodeOptions(FrameBody(frame));
  if (!server_options.ok()) {
    connection_.ProtocolError(server_options.status().message());
    return false;
  }
  absl::Status status = CheckServer(*server_options);
  if (status.ok()) status = AgreeOnSums(*server_options);
  if (status.ok()) status = NoteAddresses(*server_options);
  if (!status.ok()) {
    connection_.Refuse(status);
    return false;
  }
  wants_method_names_ = FindOption(*server_options, kOptionMethodNames);
  // After AgreeOnSums(), because AllowTrains() does nothing with checksums.
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
    // Frames of the server have sums from behind the WELCOME, and those of this
    // side from now on.
    RETURN_IF_ERROR(connection_.ExpectSums());
    connection_.BeginSums();
  } else if (connection_.options().checksum &&
             connection_.sealer() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("this client requires checksums, but the server ",
                     connection_.peer(), " did not agree to them"));
  }
  return absl::OkStatus();
}

absl::Status ClientAdmission::NoteAddresses(
    const std::vector<HelloOption>& server_options) {
  const std::string* const value = FindOption(server_options, kOptionAddresses);
  if (value == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(server_addresses_, DecodeServerAddresses(*value));
  return absl::OkStatus();
}

absl::Status ClientAdmission::CheckServer(
    const std::vector<HelloOption>& server_options) {
  if (handshake_ == nullptr) return absl::OkStatus();
  const std::string* const message =
      FindOption(server_options, kOptionCredentials);
  if (message == nullptr) {
    return absl::UnauthenticatedError(
        absl::StrCat("this client requires credentials of the kind ",
                     connection_.options().credentials->kind(),
                     ", but the server ", connection_.peer(), " has none"));
  }
  // The client has proven itself first. If the server did, everybody who
  // connects would get a proof to try secrets on.
  RETURN_IF_ERROR(handshake_->Finish(*message, hellos_));
  RETURN_IF_ERROR(CheckSeals(connection_.options().credentials->seals(),
                             connection_.sealer(), connection_.opener()));
  handshake_.reset();
  hellos_ = std::string();
  return absl::OkStatus();
}

}  // namespace verbena::transport
