// A status page of a running server, for a browser.
//
//   verbena::AdminPageOptions options;
//   options.address = "127.0.0.1:8080";
//   verbena::AddAdminPage(&builder, options);  // http://127.0.0.1:8080/
//
// It shows what listens where, connections, methods with their rates and
// latencies, open and slow calls, limits, memory and the log.
// docs/admin-page.md says more. A target of its own, because it takes a web
// server.

#ifndef VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_
#define VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "rpc/server_builder.h"
#include "rpc/services/admin/log_tail.h"

namespace verbena {

// Where the page is, who may ask for it, and whether it has a log.
struct AdminPageOptions {
  // An IPv4 address and a port, "127.0.0.1:8080"; port 0 is any free one. Not
  // IPv6, which the web server of the distribution does not know.
  //
  // WARNING: The page asks nobody who he is, and shows the names of methods and
  // peers and the log to whoever can connect, unencrypted. Let it listen at
  // another address than loopback only where all who reach that may know.
  std::string address = "127.0.0.1:0";

  // If not null, gets the port when BuildAndStart() has succeeded.
  int* selected_port = nullptr;

  // Names of this host by which browsers ask for the page, beside IP addresses
  // and "localhost". Requests for others are refused: see http_server.h.
  std::vector<std::string> host_names;

  // Whose entries the page shows, if not null.
  std::shared_ptr<LogTail> log;
};

// Has the server that `builder` builds show its page for as long as it lives,
// while it shuts down included. It has threads of its own, and holds up no
// calls. If it can't listen, BuildAndStart() fails with UNAVAILABLE; with
// INVALID_ARGUMENT, if the address is none. The process ignores SIGPIPE from
// then on: the web server's library has it so.
void AddAdminPage(ServerBuilder* builder, AdminPageOptions options = {});

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_
