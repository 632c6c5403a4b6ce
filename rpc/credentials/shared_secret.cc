#include "rpc/credentials/shared_secret.h"

#include <sodium.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using transport::ClientHandshake;
using transport::PeerFacts;
using transport::ServerHandshake;

constexpr char kKind[] = "shared_secret";
constexpr char kKeyNameProperty[] = "key_name";

constexpr size_t kNonceBytes = 32;
using Nonce = std::array<char, kNonceBytes>;
constexpr size_t kProofBytes = crypto_auth_hmacsha256_BYTES;

// Roles, which make the proofs of the two sides different.
constexpr absl::string_view kClientRole = "verbena shared secret 1, client";
constexpr absl::string_view kServerRole = "verbena shared secret 1, server";

absl::Status CheckLibrary() {
  // Asked again before each use: sodium_init() may be called any number of
  // times.
  if (sodium_init() >= 0) return absl::OkStatus();
  return absl::InternalError(
      "libsodium could not be initialised: it found no source of random "
      "numbers");
}

absl::string_view Text(const Nonce& nonce) {
  return {nonce.data(), nonce.size()};
}

absl::StatusOr<Nonce> RandomNonce() {
  RETURN_IF_ERROR(CheckLibrary());
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

absl::Status CheckLength(absl::string_view what, size_t bytes, size_t least,
                         size_t most) {
  if (least <= bytes && bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " has ", bytes, " bytes; it must have from ", least, " to ", most));
}

// Checks the library too, because every handshake needs a random number.
absl::Status CheckKey(absl::string_view name, absl::string_view secret) {
  RETURN_IF_ERROR(CheckLibrary());
  RETURN_IF_ERROR(
      CheckLength("the name of a key", name.size(), 1, kMaxKeyNameBytes));
  return CheckLength(absl::StrCat("the secret of the key \"", name, "\""),
                     secret.size(), kMinSharedSecretBytes,
                     kMaxSharedSecretBytes);
}

}  // namespace

// HMAC's state after the secret, which is all that is kept of it.
class SharedSecretKeys::Key {
 public:
  explicit Key(absl::string_view secret) {
    crypto_auth_hmacsha256_init(&state_,
                                reinterpret_cast<const uint8_t*>(secret.data()),
                                secret.size());
  }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key() { sodium_memzero(&state_, sizeof(state_)); }

  // The proof of that role in a connection. Only the hellos have any length,
  // and they stand at the end: no two connections have the same text.
  std::string Proof(absl::string_view role, const Nonce& server_nonce,
                    absl::string_view hellos) const {
    // A copy: several handshakes may use the key at the same time.
    crypto_auth_hmacsha256_state state = state_;
    for (const absl::string_view part : {role, Text(server_nonce), hellos}) {
      crypto_auth_hmacsha256_update(
          &state, reinterpret_cast<const uint8_t*>(part.data()), part.size());
    }
    std::string proof(kProofBytes, '\0');
    crypto_auth_hmacsha256_final(&state,
                                 reinterpret_cast<uint8_t*>(proof.data()));
    // The state after the secret is as good as the secret for making proofs.
    sodium_memzero(&state, sizeof(state));
    return proof;
  }

  // Whether both have the same secret.
  bool IsSame(const Key& other) const {
    // Equal secrets lead to equal states, so the secrets themselves need not be
    // kept.
    return sodium_memcmp(&state_, &other.state_, sizeof(state_)) == 0;
  }

  // Becomes true when connections that were made with it are to end.
  std::shared_ptr<const std::atomic<bool>> withdrawn() const {
    return withdrawn_;
  }
  // Relaxed: connections look at the flag now and then, and it carries nothing
  // else.
  void Withdraw() const { withdrawn_->store(true, std::memory_order_relaxed); }

  // In a time that does not depend on how much of `proof` is right.
  bool IsProof(absl::string_view proof, absl::string_view role,
               const Nonce& server_nonce, absl::string_view hellos) const {
    const std::string right = Proof(role, server_nonce, hellos);
    return proof.size() == right.size() &&
           sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
  }

 private:
  crypto_auth_hmacsha256_state state_;
  // Outlives the secret.
  const std::shared_ptr<std::atomic<bool>> withdrawn_ =
      std::make_shared<std::atomic<bool>>(false);
};

namespace {

using Key = SharedSecretKeys::Key;

// The client's messages: its random number and the key's name, in the HELLO;
// then its proof. The server's: its random number; then, with the WELCOME, its
// proof. The client's random number is bound as a part of the hellos.
class ClientSide final : public ClientHandshake {
 public:
  ClientSide(std::string key_name, std::shared_ptr<const Key> key,
             absl::Status problem)
      : key_name_(std::move(key_name)),
        key_(std::move(key)),
        problem_(std::move(problem)) {}

  absl::StatusOr<std::string> Hello() override {
    // Credentials that are not valid fail each attempt here, with their own
    // error.
    RETURN_IF_ERROR(problem_);
    ASSIGN_OR_RETURN(const Nonce nonce, RandomNonce());
    return absl::StrCat(Text(nonce), key_name_);
  }

  absl::StatusOr<std::string> Answer(absl::string_view message,
                                     absl::string_view hellos) override {
    if (answered_ || message.size() != kNonceBytes) {
      return absl::UnauthenticatedError(
          "the server sent a second challenge, or one of the wrong length");
    }
    answered_ = true;
    std::memcpy(server_nonce_.data(), message.data(), kNonceBytes);
    return key_->Proof(kClientRole, server_nonce_, hellos);
  }

  absl::Status Finish(absl::string_view message,
                      absl::string_view hellos) override {
    // A server that has not asked cannot prove anything: it has no random
    // number here.
    if (answered_ &&
        key_->IsProof(message, kServerRole, server_nonce_, hellos)) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError(absl::StrCat(
        "the server did not prove that it knows the secret of the key \"",
        key_name_, "\""));
  }

 private:
  const std::string key_name_;
  const std::shared_ptr<const Key> key_;  // Null if there is a problem.
  const absl::Status problem_;
  bool answered_ = false;
  Nonce server_nonce_ = {};
};

class ServerSide final : public ServerHandshake {
 public:
  explicit ServerSide(std::shared_ptr<const SharedSecretKeys> keys)
      : keys_(std::move(keys)) {}

  // The first message is the HELLO, with the client's random number and the
  // key's name. The second is the client's proof.
  absl::StatusOr<Answer> OnMessage(absl::string_view message,
                                   absl::string_view hellos) override {
    if (std::exchange(asked_, true)) return Check(message, hellos);
    if (message.size() <= kNonceBytes ||
        message.size() > kNonceBytes + kMaxKeyNameBytes) {
      return absl::UnauthenticatedError(
          "the client's HELLO does not name a key of a shared secret");
    }
    // Noted, not looked up: whether there is such a key shows only in the
    // answer to the proof.
    key_name_ = std::string(message.substr(kNonceBytes));
    ASSIGN_OR_RETURN(server_nonce_, RandomNonce());
    return Answer{.message = std::string(Text(server_nonce_)), .peer = nullptr};
  }

 private:
  // Checks the client's proof with the key of that name, or with a decoy. If it
  // is right, answers with the server's proof and the client's identity.
  absl::StatusOr<Answer> Check(absl::string_view proof,
                               absl::string_view hellos) const {
    const std::shared_ptr<const Key> key = keys_->Find(key_name_);
    // In the place of a key that is not there, so that a refusal takes as long.
    const Key decoy(Text(server_nonce_));
    const bool right = (key != nullptr ? *key : decoy)
                           .IsProof(proof, kClientRole, server_nonce_, hellos);
    // Equal words for both cases, so that nobody learns which keys there are.
    if (key == nullptr || !right) {
      return absl::UnauthenticatedError(
          "the server does not have the key that the client names, or has "
          "another secret for it");
    }
    auto peer = std::make_shared<AuthContext>();
    peer->AddProperty(kSecurityTypeProperty, kKind);
    peer->AddProperty(kKeyNameProperty, key_name_);
    peer->SetPeerIdentityPropertyName(kKeyNameProperty);
    // Only now does the server prove itself. Its proof in the first answer
    // would be something to try secrets on.
    return Answer{.message = key->Proof(kServerRole, server_nonce_, hellos),
                  .peer = std::move(peer),
                  .withdrawn = key->withdrawn()};
  }

  const std::shared_ptr<const SharedSecretKeys> keys_;
  bool asked_ = false;
  std::string key_name_;
  Nonce server_nonce_ = {};
};

class SharedSecretChannel final : public ChannelCredentials {
 public:
  SharedSecretChannel(absl::string_view key_name, absl::string_view secret)
      : key_name_(key_name), problem_(CheckKey(key_name, secret)) {
    if (problem_.ok()) key_ = std::make_shared<Key>(secret);
  }

  absl::string_view kind() const override { return kKind; }
  std::unique_ptr<ClientHandshake> Begin(
      const PeerFacts& /*server*/) const override {
    return std::make_unique<ClientSide>(key_name_, key_, problem_);
  }

 private:
  const std::string key_name_;
  const absl::Status problem_;
  std::shared_ptr<const Key> key_;
};

class SharedSecretServer final : public ServerCredentials {
 public:
  explicit SharedSecretServer(std::shared_ptr<const SharedSecretKeys> keys)
      : keys_(std::move(keys)) {}

  absl::string_view kind() const override { return kKind; }
  std::unique_ptr<ServerHandshake> Begin(
      const PeerFacts& /*client*/) const override {
    return std::make_unique<ServerSide>(keys_);
  }

 private:
  const std::shared_ptr<const SharedSecretKeys> keys_;
};

}  // namespace

SharedSecretKeys::SharedSecretKeys() = default;
SharedSecretKeys::~SharedSecretKeys() = default;

// Makes the new keys, then compares them with the present ones. A key that
// stays keeps its object, and any other is withdrawn.
absl::Status SharedSecretKeys::Replace(
    const std::map<std::string, std::string>& secrets,
    Connections of_withdrawn) {
  // All keys are checked before the first one is replaced.
  std::map<std::string, std::shared_ptr<const Key>, std::less<>> keys;
  for (const auto& [name, secret] : secrets) {
    RETURN_IF_ERROR(CheckKey(name, secret));
    keys.emplace(name, std::make_shared<Key>(secret));
  }
  const base::MutexLock lock(mutex_);
  for (const auto& [name, key] : keys_) {
    const auto found = keys.find(name);
    if (found != keys.end() && found->second->IsSame(*key)) {
      found->second = key;  // Connections are bound to this one.
    } else if (of_withdrawn == Connections::kEnd) {
      key->Withdraw();
    }
  }
  keys_ = std::move(keys);
  return absl::OkStatus();
}

std::shared_ptr<const Key> SharedSecretKeys::Find(
    absl::string_view name) const {
  const base::MutexLock lock(mutex_);
  const auto found = keys_.find(name);
  return found == keys_.end() ? nullptr : found->second;
}

std::shared_ptr<ChannelCredentials> SharedSecretCredentials(
    absl::string_view key_name, absl::string_view secret) {
  return std::make_shared<SharedSecretChannel>(key_name, secret);
}

std::shared_ptr<ServerCredentials> SharedSecretServerCredentials(
    std::shared_ptr<const SharedSecretKeys> keys) {
  return keys == nullptr
             ? nullptr
             : std::make_shared<SharedSecretServer>(std::move(keys));
}

}  // namespace verbena
