#include "rpc/credentials/tls_files.h"

#include "rpc/credentials/tls.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

absl::StatusOr<std::shared_ptr<const CertificateProvider>> ProviderOf(
    const TlsFiles& files) {
  if (files.certificate_chain.empty() != files.private_key.empty()) {
    return absl::InvalidArgumentError(
        "a certificate and its private key are given together or not at all");
  }
  FileWatcherCertificateProvider::Options options;
  options.root_cert_path = files.root_certs;
  if (!files.private_key.empty()) {
    options.identity_paths.push_back(
        {.private_key = files.private_key,
         .certificate_chain = files.certificate_chain});
  }
  return FileWatcherCertificateProvider::Create(std::move(options));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ChannelCredentials>> ChannelCredentialsFromFiles(
    const TlsFiles& files) {
  if (files.empty()) return InsecureChannelCredentials();
  TlsChannelCredentialsOptions options;
  options.server_name = files.server_name;
  ASSIGN_OR_RETURN(options.certificate_provider, ProviderOf(files));
  return TlsCredentials(options);
}

absl::StatusOr<std::shared_ptr<ServerCredentials>> ServerCredentialsFromFiles(
    const TlsFiles& files) {
  if (files.empty()) return InsecureServerCredentials();
  if (files.private_key.empty()) {
    return absl::InvalidArgumentError(
        "a server needs a certificate and its private key");
  }
  TlsServerCredentialsOptions options;
  if (!files.root_certs.empty()) {
    options.client_certificates = ClientCertificates::kRequire;
  }
  ASSIGN_OR_RETURN(options.certificate_provider, ProviderOf(files));
  return TlsServerCredentials(options);
}

}  // namespace verbena
