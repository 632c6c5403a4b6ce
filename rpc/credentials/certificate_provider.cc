#include "rpc/credentials/certificate_provider.h"

#include <openssl/ssl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/credentials/tls_context.h"
#include "transport/base/log.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

// More than the certificates of all public authorities take.
constexpr size_t kFileBytesMax = size_t{4} << 20;

absl::StatusOr<TlsCertificates> ReadFiles(
    const FileWatcherCertificateProvider::Options& options) {
  TlsCertificates certificates;
  if (!options.root_cert_path.empty()) {
    ASSIGN_OR_RETURN(certificates.root_certs,
                     base::ReadFile(options.root_cert_path, kFileBytesMax));
  }
  for (const IdentityKeyCertPair& paths : options.identity_paths) {
    IdentityKeyCertPair& pair = certificates.identity.emplace_back();
    ASSIGN_OR_RETURN(pair.private_key,
                     base::ReadFile(paths.private_key, kFileBytesMax));
    ASSIGN_OR_RETURN(pair.certificate_chain,
                     base::ReadFile(paths.certificate_chain, kFileBytesMax));
  }
  const absl::Status usable = CheckTlsCertificates(certificates);
  if (usable.ok()) return certificates;
  std::string files = options.root_cert_path;
  for (const IdentityKeyCertPair& paths : options.identity_paths) {
    absl::StrAppend(&files, files.empty() ? "" : ", ", paths.private_key, ", ",
                    paths.certificate_chain);
  }
  return absl::Status(usable.code(),
                      absl::StrCat(usable.message(), " (in ", files, ")"));
}

bool Same(const TlsCertificates& a, const TlsCertificates& b) {
  if (a.root_certs != b.root_certs || a.identity.size() != b.identity.size()) {
    return false;
  }
  for (size_t i = 0; i < a.identity.size(); ++i) {
    if (a.identity[i].private_key != b.identity[i].private_key ||
        a.identity[i].certificate_chain != b.identity[i].certificate_chain) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CheckTlsCertificates(const TlsCertificates& certificates) {
  // A client takes both parts, and needs neither.
  for (const IdentityKeyCertPair& identity : certificates.identity) {
    RETURN_IF_ERROR(
        internal::TlsContext::ForClient(
            {.root_certs = certificates.root_certs, .identity = {identity}},
            SSL_VERIFY_PEER)
            .status());
  }
  return internal::TlsContext::ForClient(
             {.root_certs = certificates.root_certs, .identity = {}},
             SSL_VERIFY_PEER)
      .status();
}

absl::StatusOr<std::shared_ptr<FileWatcherCertificateProvider>>
FileWatcherCertificateProvider::Create(Options options) {
  std::vector<std::string> paths;
  if (!options.root_cert_path.empty()) paths.push_back(options.root_cert_path);
  for (const IdentityKeyCertPair& pair : options.identity_paths) {
    if (pair.private_key.empty() || pair.certificate_chain.empty()) {
      return absl::InvalidArgumentError(
          "an identity needs the file of a key and that of a certificate");
    }
    paths.push_back(pair.private_key);
    paths.push_back(pair.certificate_chain);
  }
  ASSIGN_OR_RETURN(TlsCertificates certificates, ReadFiles(options));
  std::shared_ptr<FileWatcherCertificateProvider> provider(
      new FileWatcherCertificateProvider(
          std::move(options),
          std::make_shared<TlsCertificates>(std::move(certificates))));
  ASSIGN_OR_RETURN(
      provider->watch_,
      base::FileWatch::Start(paths, [raw = provider.get()] { raw->Reload(); }));
  return provider;
}

std::shared_ptr<const TlsCertificates> FileWatcherCertificateProvider::Current()
    const {
  const base::MutexLock lock(mutex_);
  return certificates_;
}

// Files are replaced one after the other. A key that does not fit its
// certificate yet is an error until the other one has come, too.
void FileWatcherCertificateProvider::Reload() {
  absl::StatusOr<TlsCertificates> read = ReadFiles(options_);
  if (read.ok()) {
    const base::MutexLock lock(mutex_);
    if (Same(*read, *certificates_)) return;
    certificates_ = std::make_shared<TlsCertificates>(*std::move(read));
  }
  if (!read.ok()) {
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat("the certificates before stay in use: ",
                     read.status().message()));
  }
  if (options_.on_reload != nullptr) options_.on_reload(read.status());
}

}  // namespace verbena
