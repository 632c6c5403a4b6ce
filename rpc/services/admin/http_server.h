// A small web server that serves what never changes, and one document.

#ifndef VERBENA_RPC_SERVICES_ADMIN_HTTP_SERVER_H_
#define VERBENA_RPC_SERVICES_ADMIN_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct mg_connection;
struct mg_context;

namespace verbena::internal {

// Answers GET, and nothing else, on threads of its own: a few, so that whoever
// holds one busy holds up other readers, and nobody else.
//
// A page of another site in a browser must not read this one. So no answer
// allows other origins. And a request must name this server by an IP address,
// "localhost", or a name from Options: somebody else may have made a name of
// his point to this address (DNS rebinding).
//
// The server uses civetweb, because of the libraries in Debian it needs the
// least code around it: it has bounded threads, a bounded queue and timeouts,
// and is a library in C that needs nothing else. cpp-httplib takes any number
// of connections, libmicrohttpd has the caller answer in steps, and Boost.Beast
// leaves the server to its user.
class HttpServer {
 public:
  struct Answer {
    std::string content_type;
    std::string body;
    std::string content_security_policy;
  };
  struct Options {
    std::string address;  // "127.0.0.1:0"; IPv4 only.
    std::vector<std::string> host_names;
  };
  // Returns the answer for `path`; null if there is none. Called on several
  // threads at once.
  using Handler = std::function<std::unique_ptr<Answer>(absl::string_view)>;

  // INVALID_ARGUMENT for an address that is not one in digits, UNAVAILABLE for
  // one that can't be listened at. From then on the process ignores SIGPIPE, as
  // civetweb has it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const Options& options, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Waits for what is being answered.
  ~HttpServer();

  int port() const { return port_; }

  // Whether `host`, of a request's header, names this server.
  static bool IsOurHost(absl::string_view host,
                        const std::vector<std::string>& host_names);

 private:
  HttpServer(const Options& options, Handler handler);
  // Called by civetweb: answers, and returns the status.
  static int OnRequest(mg_connection* connection);
  int Respond(mg_connection* connection) const;

  const Options options_;
  const Handler handler_;
  std::string address_;            // That of options_ without its port.
  mg_context* context_ = nullptr;  // Null only if it could not be started.
  int port_ = 0;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SERVICES_ADMIN_HTTP_SERVER_H_
