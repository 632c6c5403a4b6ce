// Credentials without any secrecy, for tests of the transport: the proof is the
// secret itself, with what it is to be bound to.

#ifndef VERBENA_TESTS_TRANSPORT_TOY_CREDENTIALS_H_
#define VERBENA_TESTS_TRANSPORT_TOY_CREDENTIALS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/auth_context.h"
#include "transport/base/credentials.h"

namespace verbena::transport {

inline constexpr char kToyKind[] = "toy";
inline constexpr char kToyChallenge[] = "what is the secret?";

inline std::string ToyProof(absl::string_view role, absl::string_view secret,
                            absl::string_view hellos) {
  return absl::StrCat(role, ":", secret, ":", hellos);
}

class ToyClientHandshake final : public ClientHandshake {
 public:
  explicit ToyClientHandshake(std::string secret)
      : secret_(std::move(secret)) {}
  absl::StatusOr<std::string> Hello() override { return "let me in"; }
  absl::StatusOr<std::string> Answer(absl::string_view message,
                                     absl::string_view hellos) override {
    if (message != kToyChallenge) {
      return absl::UnauthenticatedError("a question that was not expected");
    }
    return ToyProof("client", secret_, hellos);
  }
  absl::Status Finish(absl::string_view message,
                      absl::string_view hellos) override {
    if (message == ToyProof("server", secret_, hellos)) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError("the server does not know the secret");
  }

 private:
  const std::string secret_;
};

class ToyServerHandshake final : public ServerHandshake {
 public:
  explicit ToyServerHandshake(std::string secret)
      : secret_(std::move(secret)) {}
  absl::StatusOr<Answer> OnMessage(absl::string_view message,
                                   absl::string_view hellos) override {
    if (!std::exchange(asked_, true)) return Answer{kToyChallenge, nullptr};
    if (message != ToyProof("client", secret_, hellos)) {
      return absl::UnauthenticatedError("the client does not know the secret");
    }
    auto peer = std::make_shared<AuthContext>();
    peer->AddProperty("who", "a friend");
    peer->SetPeerIdentityPropertyName("who");
    return Answer{ToyProof("server", secret_, hellos), std::move(peer)};
  }

 private:
  const std::string secret_;
  bool asked_ = false;
};

class ToyClientCredentials final : public ClientCredentials {
 public:
  explicit ToyClientCredentials(std::string secret)
      : secret_(std::move(secret)) {}
  absl::string_view kind() const override { return kToyKind; }
  std::unique_ptr<ClientHandshake> Begin(
      const PeerFacts& /*server*/) const override {
    return std::make_unique<ToyClientHandshake>(secret_);
  }

 private:
  const std::string secret_;
};

class ToyServerCredentials final : public ServerCredentials {
 public:
  explicit ToyServerCredentials(std::string secret)
      : secret_(std::move(secret)) {}
  absl::string_view kind() const override { return kToyKind; }
  std::unique_ptr<ServerHandshake> Begin(
      const PeerFacts& /*client*/) const override {
    return std::make_unique<ToyServerHandshake>(secret_);
  }

 private:
  const std::string secret_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_TOY_CREDENTIALS_H_
