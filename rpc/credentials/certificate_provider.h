// Providers of the certificates and keys of TLS credentials.
//
//   auto provider = FileWatcherCertificateProvider::Create(
//       {.root_cert_path = "/etc/verbena/ca.pem",
//        .identity_paths = {{.private_key = "/etc/verbena/server.key",
//                            .certificate_chain =
//                            "/etc/verbena/server.pem"}}});
//
// All texts are PEM. A provider may be shared by any number of credentials.

#ifndef VERBENA_RPC_CREDENTIALS_CERTIFICATE_PROVIDER_H_
#define VERBENA_RPC_CREDENTIALS_CERTIFICATE_PROVIDER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/credentials/tls_certificates.h"
#include "transport/base/file_watch.h"
#include "transport/base/mutex.h"

namespace verbena {

// Returns OK if all of it can be read and each key belongs to its certificate,
// else INVALID_ARGUMENT with the cause.
absl::Status CheckTlsCertificates(const TlsCertificates& certificates);

// Provides certificates that never change.
class StaticDataCertificateProvider final : public CertificateProvider {
 public:
  explicit StaticDataCertificateProvider(TlsCertificates certificates)
      : certificates_(
            std::make_shared<TlsCertificates>(std::move(certificates))) {}
  std::shared_ptr<const TlsCertificates> Current() const override {
    return certificates_;
  }

 private:
  const std::shared_ptr<const TlsCertificates> certificates_;
};

// Provides certificates from files, and reads them anew when they change. A
// thread of its own waits for that, without looking at the files in between.
class FileWatcherCertificateProvider final : public CertificateProvider {
 public:
  struct Options {
    // The file of the root certificates; empty for none.
    std::string root_cert_path;
    // Paths instead of texts.
    std::vector<IdentityKeyCertPair> identity_paths;
    // Called after the files have changed: with OK if they are used from now
    // on, else with the cause; then the certificates before stay in use. From
    // the provider's thread. Such errors are logged, too.
    std::function<void(const absl::Status&)> on_reload = nullptr;
  };

  // Reads all files. UNAVAILABLE if one cannot be read, INVALID_ARGUMENT if
  // CheckTlsCertificates() refuses them.
  static absl::StatusOr<std::shared_ptr<FileWatcherCertificateProvider>> Create(
      Options options);

  std::shared_ptr<const TlsCertificates> Current() const override;

 private:
  FileWatcherCertificateProvider(
      Options options, std::shared_ptr<const TlsCertificates> certificates)
      : options_(std::move(options)), certificates_(std::move(certificates)) {}
  void Reload();

  const Options options_;
  mutable base::Mutex mutex_;
  std::shared_ptr<const TlsCertificates> certificates_ ABSL_GUARDED_BY(mutex_);
  // The last: its thread uses all before.
  std::unique_ptr<base::FileWatch> watch_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_CERTIFICATE_PROVIDER_H_
