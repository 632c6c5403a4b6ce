// The command `verbena certs`, which makes an authority and certificates for
// trials.

#ifndef VERBENA_TOOLS_VERBENA_CERTS_H_
#define VERBENA_TOOLS_VERBENA_CERTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace verbena::tool {

struct CertsOptions {
  // Made if it does not exist. An authority that is there already signs the
  // certificates.
  std::string folder;
  // DNS names and IP addresses of the server. If there are none: localhost, its
  // addresses, and the name of this host.
  std::vector<std::string> server_names;
  // The common name of the client, and if it is a URI also its name.
  std::string client_name;
  // How long an authority and certificates are valid. Certificates end with
  // their authority at the latest.
  int days = 30;
  // Whether to replace files of the server and the client. An authority is
  // never replaced, because it has signed certificates that are in use.
  bool force = false;
};

// Makes what is missing, and prints what it has made and how to use it. An
// error names the file or the flag, and the cause; it leaves no new files.
absl::Status MakeCerts(const CertsOptions& options);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_CERTS_H_
