#include "tools/command_line/tls_flags.h"

#include <string>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, tls_ca, "",
          "use TLS, and accept peers whose certificates lead to one of the\n"
          "root certificates in this PEM file; a server then requires them");
ABSL_FLAG(std::string, tls_cert, "",
          "use TLS, and show the certificate in this PEM file, with its chain");
ABSL_FLAG(std::string, tls_key, "", "the PEM file of its private key");
ABSL_FLAG(std::string, tls_server_name, "",
          "use TLS with the server of that name; default: the host of the\n"
          "target");

namespace verbena::tool {

TlsFiles TlsFilesOfFlags() {
  return {.root_certs = absl::GetFlag(FLAGS_tls_ca),
          .certificate_chain = absl::GetFlag(FLAGS_tls_cert),
          .private_key = absl::GetFlag(FLAGS_tls_key),
          .server_name = absl::GetFlag(FLAGS_tls_server_name)};
}

}  // namespace verbena::tool
