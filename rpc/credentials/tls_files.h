// Credentials of TLS from files, for programs that take the files as flags.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_FILES_H_
#define VERBENA_RPC_CREDENTIALS_TLS_FILES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/credentials.h"

namespace verbena {

// The files that a program was told of, in PEM. Each may be empty. They are
// read anew when they change.
struct TlsFiles {
  std::string root_certs = {};
  std::string certificate_chain = {};
  std::string private_key = {};
  // As TlsChannelCredentialsOptions::server_name.
  std::string server_name = {};

  bool empty() const {
    return root_certs.empty() && certificate_chain.empty() &&
           private_key.empty() && server_name.empty();
  }
};

// Returns TlsCredentials(), or insecure ones if nothing is given. UNAVAILABLE
// or INVALID_ARGUMENT, with the file and the cause, if a file is no good.
absl::StatusOr<std::shared_ptr<ChannelCredentials>> ChannelCredentialsFromFiles(
    const TlsFiles& files);

// Returns TlsServerCredentials(), or insecure ones if nothing is given. With
// root certificates, clients must show certificates that lead to them. Errors
// as above.
absl::StatusOr<std::shared_ptr<ServerCredentials>> ServerCredentialsFromFiles(
    const TlsFiles& files);

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_TLS_FILES_H_
