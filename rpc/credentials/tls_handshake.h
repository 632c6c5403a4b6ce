// TLS handshakes in the messages of credentials.
//
// A flight of TLS may be longer than a message. Each message is one byte, which
// is 1 if more of the flight follows and else 0, and some bytes of the flight.
// The other side asks for more with an empty message.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_HANDSHAKE_H_
#define VERBENA_RPC_CREDENTIALS_TLS_HANDSHAKE_H_

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/credentials/tls_certificates.h"
#include "rpc/credentials/tls_context.h"
#include "rpc/credentials/tls_seal.h"
#include "transport/base/credentials.h"

namespace verbena::internal {

// TLS at one side of a connection: its flights go through messages.
class TlsEnd {
 public:
  // `peer` is the other side's name for messages: "server" or "client".
  TlsEnd(std::shared_ptr<TlsContext> context, const char* peer)
      : context_(std::move(context)),
        peer_(peer),
        ssl_(context_->NewConnection()) {}
  TlsEnd(const TlsEnd&) = delete;
  TlsEnd& operator=(const TlsEnd&) = delete;
  ~TlsEnd();

  SSL* ssl() const { return ssl_.get(); }
  TlsContext& context() const { return *context_; }

  // Takes a message of the other side. Returns whether its flight is whole.
  absl::StatusOr<bool> Receive(absl::string_view message);
  // Takes the next step of TLS. Returns whether the handshake is done.
  absl::StatusOr<bool> Advance();
  // Whether a part of a flight is still to be sent.
  bool sending() const { return !out_.empty(); }
  // Returns the next message to send. REQUIRES: sending().
  std::string NextMessage();

  // Returns both directions' secrets, bound to `hellos`: the client's, then
  // the server's. FAILED_PRECONDITION until this side has sent its Finished.
  absl::StatusOr<std::pair<SealSecrets, SealSecrets>> Secrets(
      absl::string_view hellos) const;
  SealCipher cipher() const;

 private:
  // Notes what is wrong with a certificate.
  static int OnVerified(int ok, X509_STORE_CTX* store);
  absl::Status Failure();

  const std::shared_ptr<TlsContext> context_;
  const char* const peer_;
  const SslPtr ssl_;  // Null for want of memory.
  std::string out_;   // Of the flight that is being sent.
  size_t received_ = 0;
  std::string verify_error_;
};

class TlsClientHandshake final : public transport::ClientHandshake {
 public:
  // `server_name` is what the server is told and, if `check_name`, what its
  // certificate must have.
  TlsClientHandshake(absl::StatusOr<std::shared_ptr<TlsContext>> context,
                     std::string server_name, bool check_name,
                     TlsVerifier verifier);

  absl::StatusOr<std::string> Hello() override;
  absl::StatusOr<std::string> Answer(absl::string_view message,
                                     absl::string_view hellos) override;
  transport::Seals TakeSeals() override;
  absl::Status Finish(absl::string_view message,
                      absl::string_view hellos) override;

 private:
  absl::Status UseName();
  absl::Status OnDone(absl::string_view hellos);

  const absl::Status problem_;
  const std::string server_name_;
  const bool check_name_;
  const TlsVerifier verifier_;
  std::unique_ptr<TlsEnd> end_;  // Null if there is a problem.
  bool done_ = false;
  transport::Seals seals_;
};

class TlsServerHandshake final : public transport::ServerHandshake {
 public:
  TlsServerHandshake(absl::StatusOr<std::shared_ptr<TlsContext>> context,
                     TlsVerifier verifier);

  absl::StatusOr<Answer> OnMessage(absl::string_view message,
                                   absl::string_view hellos) override;

 private:
  // Sends the next message of a flight; behind its end the sealer begins.
  Answer Send();
  absl::StatusOr<Answer> Admit();

  const absl::Status problem_;
  const TlsVerifier verifier_;
  std::unique_ptr<TlsEnd> end_;  // Null if there is a problem.
  transport::Seals seals_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_CREDENTIALS_TLS_HANDSHAKE_H_
