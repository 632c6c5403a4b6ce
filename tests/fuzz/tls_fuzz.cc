// Fuzzes the handshake of TLS at both sides, and frames and parts that are
// sealed. The input says what becomes of each message on its way.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "rpc/credentials/tls.h"
#include "rpc/credentials/tls_seal.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/testing/test_tls.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/wire/sealed_part.h"

namespace verbena {
namespace {

using transport::ClientHandshake;
using transport::PeerFacts;
using transport::Seals;
using transport::ServerHandshake;

constexpr char kHellos[] = "hellos";
// Messages of a handshake that never ends.
constexpr int kMessagesMax = 100;

struct Credentials {
  std::shared_ptr<ChannelCredentials> channel;
  std::shared_ptr<ServerCredentials> port;
};

// Made once: keys take long.
const Credentials& OfBothSides() {
  static const auto* const credentials = [] {
    const testing_support::TestCertificates made =
        testing_support::MakeTestCertificates();
    return new Credentials{
        .channel =
            *TlsCredentials({.certificate_provider = testing_support::Provider(
                                 made.authority.certificate, {made.client})}),
        .port = *TlsServerCredentials(
            {.certificate_provider = testing_support::Provider(
                 made.authority.certificate, {made.server}),
             .client_certificates = ClientCertificates::kRequire})};
  }();
  return *credentials;
}

// Most messages pass as they are, so that the handshake gets on.
std::string OnItsWay(std::string message, fuzz::FuzzInput* input) {
  switch (input->Below(8)) {
    case 0: {
      const absl::Span<const uint8_t> bytes =
          input->Bytes(input->Take<uint16_t>() % 3000);
      return std::string(fuzz::AsText(bytes));
    }
    case 1:
      if (!message.empty()) {
        message[input->Take<uint16_t>() % message.size()] ^=
            static_cast<char>(input->Take<uint8_t>());
      }
      return message;
    case 2:
      message.resize(
          std::min<size_t>(message.size(), input->Take<uint16_t>() % 3000));
      return message;
    default:
      return message;
  }
}

void Keep(Seals from, Seals* to) {
  if (from.sealer != nullptr) to->sealer = std::move(from.sealer);
  if (from.opener != nullptr) to->opener = std::move(from.opener);
}

// Checks that both sides have keys that fit.
void CheckKeys(const Seals& client, const Seals& server) {
  CHECK(client.sealer != nullptr && client.opener != nullptr);
  CHECK(server.sealer != nullptr && server.opener != nullptr);
  std::vector<uint8_t> frame(32 + transport::kSealTagBytes);
  const absl::Span<uint8_t> text = absl::MakeSpan(frame).first(32);
  client.sealer->SealFrame(0, text);
  CHECK(server.opener->OpenFrame(0, text));
}

void Shake(fuzz::FuzzInput* input) {
  const auto client =
      OfBothSides().channel->Begin(PeerFacts{.name = "localhost"});
  const auto server = OfBothSides().port->Begin(PeerFacts());
  Seals client_seals;
  Seals server_seals;
  absl::StatusOr<std::string> message = client->Hello();
  for (int i = 0; message.ok() && i < kMessagesMax; ++i) {
    CHECK_LE(message->size(), transport::kMaxCredentialBytes);
    absl::StatusOr<ServerHandshake::Answer> answer =
        server->OnMessage(OnItsWay(*message, input), kHellos);
    if (!answer.ok()) return;
    CHECK_LE(answer->message.size(), transport::kMaxCredentialBytes);
    Keep(std::move(answer->seals), &server_seals);
    const std::string back = OnItsWay(answer->message, input);
    if (answer->peer != nullptr) {
      CHECK(answer->peer->IsPeerAuthenticated());
      if (client->Finish(back, kHellos).ok()) {
        CheckKeys(client_seals, server_seals);
      }
      return;
    }
    message = client->Answer(back, kHellos);
    if (message.ok()) Keep(client->TakeSeals(), &client_seals);
  }
}

// Nothing opens that was not sealed under that number.
void Open(fuzz::FuzzInput* input) {
  internal::SealSecrets secrets = {};
  internal::TlsSealer sealer(internal::SealCipher::kAes256Gcm, secrets);
  internal::TlsOpener opener(internal::SealCipher::kAes256Gcm, secrets);
  const uint64_t number = input->Take<uint64_t>();
  const uint64_t other = input->Bool() ? number : input->Take<uint64_t>();
  const std::string plain(input->Take<uint8_t>(), 'x');
  std::string frame = plain + std::string(transport::kSealTagBytes, '\0');
  sealer.SealFrame(number,
                   {reinterpret_cast<uint8_t*>(frame.data()), plain.size()});
  std::string arrived = OnItsWay(frame, input);
  const bool same = arrived == frame && number == other;
  if (arrived.size() < transport::kSealTagBytes) return;
  const size_t bytes = arrived.size() - transport::kSealTagBytes;
  const bool opened = opener.OpenFrame(
      other, {reinterpret_cast<uint8_t*>(arrived.data()), bytes});
  CHECK_EQ(opened, same);
  if (opened) CHECK(arrived.substr(0, bytes) == plain);
}

// A part that comes piece by piece is opened no farther than it is there.
void OpenPart(fuzz::FuzzInput* input) {
  internal::SealSecrets secrets = {};
  internal::TlsOpener opener(internal::SealCipher::kAes256Gcm, secrets);
  std::string part(fuzz::AsText(input->Bytes(1000)));
  std::string tags(transport::SealTagsBytes(part.size()), '\0');
  transport::PartSeal seal(
      &opener, input->Take<uint64_t>(),
      {reinterpret_cast<uint8_t*>(part.data()), part.size()},
      reinterpret_cast<uint8_t*>(tags.data()));
  bool intact = true;
  while (!input->empty()) {
    const bool now = seal.OpenTo(input->Take<uint16_t>());
    CHECK(intact || !now);
    intact = now;
  }
  if (!part.empty()) CHECK(!seal.OpenAll());
}

}  // namespace
}  // namespace verbena

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::fuzz::FuzzInput input(data, size);
  switch (input.Below(3)) {
    case 0:
      verbena::Shake(&input);
      break;
    case 1:
      verbena::Open(&input);
      break;
    default:
      verbena::OpenPart(&input);
  }
  return 0;
}
