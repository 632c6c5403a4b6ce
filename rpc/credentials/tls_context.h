// OpenSSL's contexts for the certificates that a provider has.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_CONTEXT_H_
#define VERBENA_RPC_CREDENTIALS_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/credentials/tls_certificates.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

struct FreeSsl {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, FreeSsl>;
using SslPtr = std::unique_ptr<SSL, FreeSsl>;
using SslSessionPtr = std::unique_ptr<SSL_SESSION, FreeSsl>;

// Returns `what` with the errors that OpenSSL has noted for this thread, which
// it forgets.
std::string WithSslErrors(absl::string_view what);

// Sessions that a client may resume, by the names of servers. Each is used for
// one connection. Thread-safe.
class TlsSessions {
 public:
  // A session for that server; null if there is none.
  SslSessionPtr Take(const std::string& server_name);
  void Put(const std::string& server_name, SslSessionPtr session);

 private:
  // More would only be forgotten: servers give one for each connection.
  static constexpr size_t kPerServer = 8;
  static constexpr size_t kServers = 1024;

  base::Mutex mutex_;
  std::map<std::string, std::deque<SslSessionPtr>> sessions_
      ABSL_GUARDED_BY(mutex_);
};

// Everything made of one set of certificates. Thread-safe.
class TlsContext {
 public:
  // INVALID_ARGUMENT if the certificates cannot be used. `verify` is an
  // SSL_VERIFY_ mode.
  static absl::StatusOr<std::shared_ptr<TlsContext>> ForClient(
      const TlsCertificates& certificates, int verify);
  static absl::StatusOr<std::shared_ptr<TlsContext>> ForServer(
      const TlsCertificates& certificates, int verify);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A new connection with memory for what it reads and writes; null if there is
  // no memory.
  SslPtr NewConnection() const;
  TlsSessions& sessions() { return sessions_; }

 private:
  TlsContext() = default;
  // Has a connection take the identity that fits the name it asks for.
  static int ChooseIdentity(SSL* ssl, int* alert, void* self);

  // Contexts by identity; the first one begins each connection.
  std::vector<SslContextPtr> contexts_;
  TlsSessions sessions_;
};

// The context of the certificates that a provider has now. Thread-safe.
class TlsContexts {
 public:
  using Factory = absl::StatusOr<std::shared_ptr<TlsContext>> (*)(
      const TlsCertificates& certificates, int verify);
  TlsContexts(std::shared_ptr<const CertificateProvider> provider,
              Factory factory, int verify)
      : provider_(std::move(provider)), factory_(factory), verify_(verify) {}

  // Makes a new one if the provider has other certificates than before. The
  // error of these.
  absl::StatusOr<std::shared_ptr<TlsContext>> Current() const;

 private:
  const std::shared_ptr<const CertificateProvider> provider_;
  const Factory factory_;
  const int verify_;
  mutable base::Mutex mutex_;
  mutable std::shared_ptr<const TlsCertificates> certificates_
      ABSL_GUARDED_BY(mutex_);
  mutable absl::StatusOr<std::shared_ptr<TlsContext>> context_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_CREDENTIALS_TLS_CONTEXT_H_
