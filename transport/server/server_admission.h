// How a server lets a client in: from the HELLO to the WELCOME.

#ifndef VERBENA_TRANSPORT_SERVER_SERVER_ADMISSION_H_
#define VERBENA_TRANSPORT_SERVER_SERVER_ADMISSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/base/auth_context.h"
#include "transport/base/credentials.h"
#include "transport/session/connection.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// The terms for the clients that come to an address. Null stands for none.
struct AdmissionTerms {
  // Credentials that a client must show.
  std::shared_ptr<const ServerCredentials> credentials = nullptr;
  // The value of kOptionAddresses for a client that asks.
  std::shared_ptr<const std::string> addresses = nullptr;
};

// Handles what a client sends before it is let in, and answers: with
// CREDENTIALS as long as the handshake goes on, then with the WELCOME. Poller
// thread only.
class ServerAdmission {
 public:
  // A client must say HELLO until `deadline`. `connection` must outlive it, and
  // may still be under construction.
  ServerAdmission(Connection& connection, AdmissionTerms terms,
                  const ConnectRequest& request, absl::Time deadline)
      : connection_(connection),
        deadline_(deadline),
        terms_(std::move(terms)),
        request_(request) {}
  ServerAdmission(const ServerAdmission&) = delete;
  ServerAdmission& operator=(const ServerAdmission&) = delete;

  // Handles a frame that came before the client was let in.
  void Handle(absl::Span<const uint8_t> frame);
  // Sends the WELCOME or the CREDENTIALS that are due, if it can. Returns
  // whether that has opened the connection.
  bool SendDue();
  bool due() const { return due_; }
  // The connection is closing. Returns whether its client still had to prove
  // who it is.
  bool Abandon();

  absl::Time deadline() const { return deadline_; }
  // The client's identity; null if nobody asked.
  const std::shared_ptr<const AuthContext>& auth_context() const {
    return auth_context_;
  }
  // Whether the credentials may be withdrawn, and whether they were.
  bool revocable() const { return withdrawn_ != nullptr; }
  bool revoked() const {
    return revocable() && withdrawn_->load(std::memory_order_relaxed);
  }

 private:
  void HandleHello(absl::Span<const uint8_t> frame);
  // OK unless the client wants checksums that this side does not have.
  absl::Status AgreeOnSums(const std::vector<HelloOption>& client_options);
  // Begins the handshake, or refuses the client.
  void BeginHandshake(absl::string_view hello_body,
                      const std::vector<HelloOption>& client_options);
  // Goes on with the handshake.
  void HandleCredentials(absl::string_view message);
  // Lets the client in; `welcome` is the body of the WELCOME.
  void Admit(std::string welcome);

  Connection& connection_;
  const absl::Time deadline_;
  // The credentials are null once the client has shown them, and the addresses
  // from the HELLO on if it does not ask.
  AdmissionTerms terms_;
  const ConnectRequest request_;
  std::string hellos_;  // The handshake is bound to them.
  std::unique_ptr<ServerHandshake> handshake_;  // From the HELLO on.
  // Body of the WELCOME, or of the CREDENTIALS before it.
  std::string body_;
  bool due_ = false;
  std::unique_ptr<Sealer> sealer_;  // Seals what follows that frame.
  std::shared_ptr<const AuthContext> auth_context_;
  // Whether `auth_context_` is not believed any more; null if it always is.
  std::shared_ptr<const std::atomic<bool>> withdrawn_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SERVER_SERVER_ADMISSION_H_
