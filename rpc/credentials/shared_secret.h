// Credentials of those who know a secret.
//
//   // At the server. Two keys are valid while clients move from one to the
//   // other.
//   auto keys = std::make_shared<SharedSecretKeys>();
//   absl::Status status =
//       keys->Replace({{"november", new_secret}, {"october", old_secret}});
//   builder.AddListeningPort("0.0.0.0:50051",
//                            SharedSecretServerCredentials(keys));
//
//   // At the client.
//   CreateChannel("10.0.0.7:50051",
//                 SharedSecretCredentials("november", new_secret));
//
// Both sides prove that they know the secret of the key that the client
// names, and neither reveals it; the client proves it first. Each sends 32
// random bytes and an HMAC-SHA-256 with the secret. The HMAC covers its
// role, the server's random number, and both sides' hellos. The hellos
// include the client's random number, the limits of both, and where the
// client's memory is. So no proof is of use for another connection or for
// the other side, and a changed hello is noticed. Later messages are not
// protected: see rpc/credentials.h.
//
// An attacker who has talked with either side, or has read the messages of a
// handshake, can test guesses of the secret offline. So a secret must be
// random, not a word: `openssl rand -base64 32`.

#ifndef VERBENA_RPC_CREDENTIALS_SHARED_SECRET_H_
#define VERBENA_RPC_CREDENTIALS_SHARED_SECRET_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rpc/credentials.h"
#include "transport/base/mutex.h"

namespace verbena {

// The shortest secret that is accepted, in bytes: too long to be guessed if it
// is random.
inline constexpr size_t kMinSharedSecretBytes = 16;
// The longest secret, and the longest name of a key. A name has one at least.
inline constexpr size_t kMaxSharedSecretBytes = 1024;
inline constexpr size_t kMaxKeyNameBytes = 255;

// The keys of a server, which may be replaced while it runs. Thread-safe.
class SharedSecretKeys {
 public:
  // Starts without keys, so that every client is refused.
  SharedSecretKeys();
  SharedSecretKeys(const SharedSecretKeys&) = delete;
  SharedSecretKeys& operator=(const SharedSecretKeys&) = delete;
  ~SharedSecretKeys();

  // From now on these are the keys: secrets by the names of the keys.
  // INVALID_ARGUMENT, and the keys before remain, if a secret or a name is too
  // short or too long. A key is withdrawn if it is not among them, or has
  // another secret. Connections that clients have made with it end within some
  // seconds, and their calls with UNAUTHENTICATED, unless `of_withdrawn` says
  // that they stay.
  enum class Connections { kEnd, kStay };
  absl::Status Replace(const std::map<std::string, std::string>& secrets,
                       Connections of_withdrawn = Connections::kEnd);

  // Returns the key of that name; null if there is none.
  class Key;
  std::shared_ptr<const Key> Find(absl::string_view name) const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Key>, std::less<>> keys_
      ABSL_GUARDED_BY(mutex_);
};

// Credentials of a client that knows `secret`, the secret of the key
// `key_name`. If one of the two is too short or too long, the channel's calls
// end with INVALID_ARGUMENT.
std::shared_ptr<ChannelCredentials> SharedSecretCredentials(
    absl::string_view key_name, absl::string_view secret);

// Credentials of a server that has `keys`, which are not null. A client with a
// wrong secret and a client with an unknown key get the same answer.
std::shared_ptr<ServerCredentials> SharedSecretServerCredentials(
    std::shared_ptr<const SharedSecretKeys> keys);

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_SHARED_SECRET_H_
