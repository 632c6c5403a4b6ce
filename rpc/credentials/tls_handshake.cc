#include "rpc/credentials/tls_handshake.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rpc/credentials/tls_peer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// More than the longest chains of certificates take. So little can somebody
// who has not proven anything make the other side keep.
constexpr size_t kHandshakeBytesMax = 64 * 1024;

absl::Status OutOfTurn(const char* peer) {
  return absl::UnauthenticatedError(
      absl::StrCat("the ", peer, " sent a message of TLS out of turn"));
}

absl::Status ProblemOf(
    const absl::StatusOr<std::shared_ptr<TlsContext>>& context) {
  return context.status();
}

std::unique_ptr<TlsEnd> EndOf(
    const absl::StatusOr<std::shared_ptr<TlsContext>>& context,
    const char* peer) {
  return context.ok() ? std::make_unique<TlsEnd>(*context, peer) : nullptr;
}

}  // namespace

// OpenSSL lets nobody resume a session that was not shut down. Here the
// connection goes on without it.
TlsEnd::~TlsEnd() {
  if (ssl_ != nullptr) {
    SSL_set_shutdown(ssl(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  }
}

absl::StatusOr<bool> TlsEnd::Receive(absl::string_view message) {
  if (message.size() < 2 || message[0] > 1) return OutOfTurn(peer_);
  received_ += message.size();
  if (received_ > kHandshakeBytesMax) {
    return absl::UnauthenticatedError(
        absl::StrCat("the ", peer_, "'s handshake of TLS is longer than ",
                     kHandshakeBytesMax, " bytes"));
  }
  const absl::string_view flight = message.substr(1);
  CHECK_EQ(BIO_write(SSL_get_rbio(ssl()), flight.data(),
                     static_cast<int>(flight.size())),
           static_cast<int>(flight.size()));
  return message[0] == 0;
}

// OpenSSL wants to read when it has nothing to do before the next flight.
absl::StatusOr<bool> TlsEnd::Advance() {
  if (ssl_ == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  ERR_clear_error();
  SSL_set_app_data(ssl(), this);
  SSL_set_verify(ssl(), SSL_get_verify_mode(ssl()), OnVerified);
  const int result = SSL_do_handshake(ssl());
  if (result != 1 && SSL_get_error(ssl(), result) != SSL_ERROR_WANT_READ) {
    return Failure();
  }
  BIO* const written = SSL_get_wbio(ssl());
  out_.resize(BIO_ctrl_pending(written));
  if (!out_.empty()) {
    CHECK_EQ(BIO_read(written, out_.data(), static_cast<int>(out_.size())),
             static_cast<int>(out_.size()));
  } else if (result != 1) {
    return OutOfTurn(peer_);
  }
  return result == 1;
}

std::string TlsEnd::NextMessage() {
  const size_t bytes =
      std::min<size_t>(out_.size(), transport::kMaxCredentialBytes - 1);
  const bool more = bytes < out_.size();
  std::string message = absl::StrCat(absl::string_view(more ? "\1" : "\0", 1),
                                     out_.substr(0, bytes));
  out_.erase(0, bytes);
  return message;
}

int TlsEnd::OnVerified(int ok, X509_STORE_CTX* store) {
  if (ok == 1) return ok;
  const SSL* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const self = static_cast<TlsEnd*>(SSL_get_app_data(ssl));
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  self->verify_error_ = absl::StrCat(
      X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)),
      certificate == nullptr
          ? ""
          : absl::StrCat(" (it is for ", NamesOf(certificate), ")"));
  return ok;
}

absl::Status TlsEnd::Failure() {
  if (!verify_error_.empty()) {
    ERR_clear_error();
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate of the ", peer_,
                     " was not accepted: ", verify_error_));
  }
  return absl::UnauthenticatedError(WithSslErrors(
      absl::StrCat("the handshake of TLS with the ", peer_, " failed")));
}

absl::StatusOr<std::pair<SealSecrets, SealSecrets>> TlsEnd::Secrets(
    absl::string_view hellos) const {
  static constexpr absl::string_view kLabel = "EXPORTER-Verbena-Seal";
  std::array<uint8_t, EVP_MAX_MD_SIZE> context;
  unsigned int context_bytes = 0;
  CHECK_EQ(EVP_Digest(hellos.data(), hellos.size(), context.data(),
                      &context_bytes, EVP_sha256(), nullptr),
           1);
  std::pair<SealSecrets, SealSecrets> secrets;
  std::array<uint8_t, 4 * sizeof(SealSecret)> bytes;
  if (SSL_export_keying_material(ssl(), bytes.data(), bytes.size(),
                                 kLabel.data(), kLabel.size(), context.data(),
                                 context_bytes, /*use_context=*/1) != 1) {
    ERR_clear_error();
    return absl::FailedPreconditionError("TLS has no keys yet");
  }
  const uint8_t* next = bytes.data();
  for (SealSecret* secret : {&secrets.first.frames, &secrets.first.chunks,
                             &secrets.second.frames, &secrets.second.chunks}) {
    std::memcpy(secret->data(), next, secret->size());
    next += secret->size();
  }
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return secrets;
}

SealCipher TlsEnd::cipher() const {
  constexpr uint16_t kChaCha20Poly1305Sha256 = 0x1303;
  const SSL_CIPHER* const cipher = SSL_get_current_cipher(ssl());
  return cipher != nullptr &&
                 SSL_CIPHER_get_protocol_id(cipher) == kChaCha20Poly1305Sha256
             ? SealCipher::kChaCha20Poly1305
             : SealCipher::kAes256Gcm;
}

// --- Client ------------------------------------------------------------------

TlsClientHandshake::TlsClientHandshake(
    absl::StatusOr<std::shared_ptr<TlsContext>> context,
    std::string server_name, bool check_name, TlsVerifier verifier)
    : problem_(ProblemOf(context)),
      server_name_(std::move(server_name)),
      check_name_(check_name),
      verifier_(std::move(verifier)),
      end_(EndOf(context, "server")) {}

absl::StatusOr<std::string> TlsClientHandshake::Hello() {
  // Credentials that cannot be used any more fail each attempt here.
  RETURN_IF_ERROR(problem_);
  if (end_->ssl() == nullptr) {
    return absl::ResourceExhaustedError("no memory for TLS");
  }
  SSL_set_connect_state(end_->ssl());
  RETURN_IF_ERROR(UseName());
  if (const SslSessionPtr session =
          end_->context().sessions().Take(server_name_)) {
    SSL_set_session(end_->ssl(), session.get());
  }
  RETURN_IF_ERROR(end_->Advance().status());
  return end_->NextMessage();
}

// An address is no name for SNI (RFC 6066, section 3).
absl::Status TlsClientHandshake::UseName() {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(end_->ssl());
  const bool is_address =
      X509_VERIFY_PARAM_set1_ip_asc(wanted, server_name_.c_str()) == 1;
  if (is_address && check_name_) return absl::OkStatus();
  X509_VERIFY_PARAM_set1_ip(wanted, nullptr, 0);
  ERR_clear_error();
  if (!is_address &&
      SSL_set_tlsext_host_name(end_->ssl(), server_name_.c_str()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", server_name_, "\" cannot be the name of a server"));
  }
  if (!check_name_) return absl::OkStatus();
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (server_name_.empty() ||
      X509_VERIFY_PARAM_set1_host(wanted, server_name_.c_str(), 0) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no certificate can have the name \"", server_name_, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TlsClientHandshake::Answer(
    absl::string_view message, absl::string_view hellos) {
  if (end_->sending()) {
    if (!message.empty()) return OutOfTurn("server");
    return end_->NextMessage();
  }
  if (done_) return OutOfTurn("server");
  ASSIGN_OR_RETURN(const bool whole, end_->Receive(message));
  if (!whole) return std::string();
  ASSIGN_OR_RETURN(done_, end_->Advance());
  if (done_) RETURN_IF_ERROR(OnDone(hellos));
  return end_->NextMessage();
}

absl::Status TlsClientHandshake::OnDone(absl::string_view hellos) {
  if (verifier_ != nullptr) {
    RETURN_IF_ERROR(verifier_(*PeerOf(end_->ssl())));
  }
  ASSIGN_OR_RETURN(const auto secrets, end_->Secrets(hellos));
  seals_.sealer = std::make_unique<TlsSealer>(end_->cipher(), secrets.first);
  seals_.opener = std::make_unique<TlsOpener>(end_->cipher(), secrets.second);
  return absl::OkStatus();
}

// The server seals what follows its Finished, and this side what follows its
// own, which is the last message of the flight.
transport::Seals TlsClientHandshake::TakeSeals() {
  transport::Seals due;
  due.opener = std::move(seals_.opener);
  if (!end_->sending()) due.sealer = std::move(seals_.sealer);
  return due;
}

// The server's last message has a session to resume.
absl::Status TlsClientHandshake::Finish(absl::string_view message,
                                        absl::string_view /*hellos*/) {
  if (!done_ || end_->sending()) return OutOfTurn("server");
  ASSIGN_OR_RETURN(const bool whole, end_->Receive(message));
  char none;
  if (!whole || SSL_read(end_->ssl(), &none, 1) > 0) return OutOfTurn("server");
  ERR_clear_error();
  SslSessionPtr session(SSL_get1_session(end_->ssl()));
  if (session != nullptr && SSL_SESSION_is_resumable(session.get()) == 1) {
    end_->context().sessions().Put(server_name_, std::move(session));
  }
  return absl::OkStatus();
}

// --- Server ------------------------------------------------------------------

TlsServerHandshake::TlsServerHandshake(
    absl::StatusOr<std::shared_ptr<TlsContext>> context, TlsVerifier verifier)
    : problem_(ProblemOf(context)),
      verifier_(std::move(verifier)),
      end_(EndOf(context, "client")) {
  if (end_ != nullptr && end_->ssl() != nullptr) {
    SSL_set_accept_state(end_->ssl());
  }
}

// Before the server's flight has its Finished there are no keys: then it asked
// for another ClientHello, and nothing is sealed yet.
absl::StatusOr<transport::ServerHandshake::Answer>
TlsServerHandshake::OnMessage(absl::string_view message,
                              absl::string_view hellos) {
  RETURN_IF_ERROR(problem_);
  if (end_->ssl() == nullptr) {
    return absl::ResourceExhaustedError("no memory for TLS");
  }
  if (end_->sending()) {
    if (!message.empty()) return OutOfTurn("client");
    return Send();
  }
  ASSIGN_OR_RETURN(const bool whole, end_->Receive(message));
  if (!whole) return Answer();
  ASSIGN_OR_RETURN(const bool done, end_->Advance());
  if (done) return Admit();
  if (const auto secrets = end_->Secrets(hellos); secrets.ok()) {
    seals_.opener = std::make_unique<TlsOpener>(end_->cipher(), secrets->first);
    seals_.sealer =
        std::make_unique<TlsSealer>(end_->cipher(), secrets->second);
  }
  return Send();
}

transport::ServerHandshake::Answer TlsServerHandshake::Send() {
  Answer answer;
  answer.message = end_->NextMessage();
  if (!end_->sending()) answer.seals.sealer = std::move(seals_.sealer);
  return answer;
}

absl::StatusOr<transport::ServerHandshake::Answer> TlsServerHandshake::Admit() {
  const std::shared_ptr<transport::AuthContext> peer = PeerOf(end_->ssl());
  if (verifier_ != nullptr) RETURN_IF_ERROR(verifier_(*peer));
  if (seals_.opener == nullptr || !end_->sending()) return OutOfTurn("client");
  Answer answer;
  answer.message = end_->NextMessage();
  answer.peer = peer;
  answer.seals.opener = std::move(seals_.opener);
  return answer;
}

}  // namespace verbena::internal
