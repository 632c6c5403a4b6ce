// The flags of TLS, which all tools have in common.

#ifndef VERBENA_TOOLS_COMMAND_LINE_TLS_FLAGS_H_
#define VERBENA_TOOLS_COMMAND_LINE_TLS_FLAGS_H_

#include "rpc/credentials/tls_files.h"

namespace verbena::tool {

// Returns the files that --tls_ca, --tls_cert, --tls_key and --tls_server_name
// have.
TlsFiles TlsFilesOfFlags();

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_COMMAND_LINE_TLS_FLAGS_H_
