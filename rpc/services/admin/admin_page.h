// A status page of a running server, for a browser.
//
//   verbena::AdminPageOptions options;
//   options.address = "127.0.0.1:8080";
//   verbena::AddAdminPage(&builder, options);  // http://127.0.0.1:8080/
//
// The page shows the listening addresses, connections, methods with their
// rates and latencies, open and slow calls, limits, memory and the log, and the
// channels that it is given.
// docs/admin-page.md says more. A target of its own, because it needs a
// web server.

#ifndef VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_
#define VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "rpc/server_builder.h"
#include "rpc/services/admin/admin_channels.h"
#include "rpc/services/admin/log_tail.h"

namespace verbena {

// The options of the page: its address, its names, its log, and its channels.
struct AdminPageOptions {
  // An IPv4 address and a port, "127.0.0.1:8080"; port 0 is any free one. Not
  // IPv6, because the distribution's civetweb does not support it.
  //
  // WARNING: The page has no authentication and no encryption. It shows the
  // names of methods and peers and the log to everybody who can connect. Use
  // an address other than loopback only if everybody who can reach it may
  // see them.
  std::string address = "127.0.0.1:0";

  // If not null, gets the port when BuildAndStart() has succeeded.
  int* selected_port = nullptr;

  // Names of this host by which browsers ask for the page, beside IP addresses
  // and "localhost". Requests for others are refused: see http_server.h.
  std::vector<std::string> host_names;

  // The log whose entries the page shows; null for none.
  std::shared_ptr<LogTail> log;

  // The channels that the page shows; null for none. The server has a reference
  // to it until it is destroyed.
  std::shared_ptr<AdminChannels> channels;
};

// Has the server that `builder` builds show the page for as long as the server
// lives, also while it shuts down. The page has threads of its own, and holds
// up no calls. If it can't listen, BuildAndStart() fails with UNAVAILABLE; if
// the address is not valid, with INVALID_ARGUMENT. The process ignores SIGPIPE
// from then on, because civetweb makes it do so.
void AddAdminPage(ServerBuilder* builder, AdminPageOptions options = {});

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_ADMIN_ADMIN_PAGE_H_
