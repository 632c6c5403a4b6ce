#include "rpc/services/admin/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <future>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/base/socket_address.h"

namespace verbena::internal {
namespace {

// Each is a connection that is served at the same time.
constexpr char kThreads[] = "3";
// Connections that wait for a thread; others wait in the kernel, or are lost.
constexpr char kQueue[] = "16";
// A client that says nothing for so long gives its thread back.
constexpr char kTimeoutMilliseconds[] = "3000";
constexpr char kLargestRequestBytes[] = "4096";
constexpr std::chrono::milliseconds kWakeInterval(20);

bool IsIpAddress(absl::string_view host) {
  in_addr v4;
  in6_addr v6;
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

// "[::1]:80" is "::1", "localhost:80" is "localhost".
absl::string_view WithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    const size_t end = host.find(']');
    return end == absl::string_view::npos ? "" : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

// Forbids browsers to keep the answer, or to guess its type. Closes the
// connection, since a thread serves one at a time.
int Send(mg_connection* connection, int status, const char* reason,
         const HttpServer::Answer& answer, absl::string_view more = "") {
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", status, " ", reason,
      "\r\nContent-Type: ", answer.content_type,
      "\r\nContent-Length: ", answer.body.size(),
      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
      "\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: ",
      answer.content_security_policy, "\r\n", more,
      "Connection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  mg_write(connection, answer.body.data(), answer.body.size());
  return status;
}

int Refuse(mg_connection* connection, int status, const char* reason,
           absl::string_view text, absl::string_view more = "") {
  return Send(connection, status, reason,
              {"text/plain; charset=utf-8", absl::StrCat(text, "\n"),
               "default-src 'none'"},
              more);
}

}  // namespace

// A name that somebody else has made point here is none of these, while an
// address names this host beyond doubt.
bool HttpServer::IsOurHost(absl::string_view host,
                           const std::vector<std::string>& host_names) {
  const absl::string_view name = WithoutPort(host);
  if (IsIpAddress(name) || absl::EqualsIgnoreCase(name, "localhost")) {
    return true;
  }
  for (const std::string& ours : host_names) {
    if (absl::EqualsIgnoreCase(name, ours)) return true;
  }
  return false;
}

HttpServer::HttpServer(const Options& options, Handler handler)
    : options_(options), handler_(std::move(handler)) {}

// Checks the address, then starts civetweb with settings that leave it nothing
// to serve but OnRequest(). Asks for the port afterwards, which may have been
// 0.
absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const Options& options, Handler handler) {
  // civetweb understands much more, among it a port alone, of every address;
  // and Debian's has no IPv6.
  const auto parsed = base::SocketAddress::ParseNumeric(options.address);
  if (!parsed.ok() || parsed->family() != AF_INET) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the status page can't listen at \"", options.address,
        "\": that must be an IPv4 address and a port, as in 127.0.0.1:8080"));
  }
  const base::SocketAddress& address = *parsed;
  const std::string port_and_address = address.ToString();
  auto server = absl::WrapUnique(new HttpServer(options, std::move(handler)));
  server->address_ = address.HostString();
  // Neither files nor scripts are served: all requests come to OnRequest().
  const char* settings[] = {"listening_ports",
                            port_and_address.c_str(),
                            "num_threads",
                            kThreads,
                            "connection_queue",
                            kQueue,
                            "request_timeout_ms",
                            kTimeoutMilliseconds,
                            "max_request_size",
                            kLargestRequestBytes,
                            "enable_keep_alive",
                            "no",
                            "access_control_allow_origin",
                            "",
                            "access_control_allow_methods",
                            "",
                            nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = &HttpServer::OnRequest;
  // Keeps civetweb from writing to standard error.
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  mg_init_data init = {&callbacks, server.get(), settings};
  std::array<char, 256> text = {};
  mg_error_data error = {nullptr, text.data(), text.size()};
  server->context_ = mg_start2(&init, &error);
  if (server->context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "the status page can't listen at ", options.address, ": ", text.data(),
        "; is the port free, and is the address one of this host?"));
  }
  mg_server_port port = {};
  if (mg_get_server_ports(server->context_, 1, &port) == 1) {
    server->port_ = port.port;
  }
  return server;
}

HttpServer::~HttpServer() {
  if (context_ == nullptr) return;
  // civetweb looks every two seconds whether it is to stop, and whenever
  // somebody connects. The first who does may come before it was told.
  auto stopped = std::async(std::launch::async, [this] { mg_stop(context_); });
  while (stopped.wait_for(kWakeInterval) != std::future_status::ready) {
    mg_connection* const visitor =
        mg_connect_client(address_.c_str(), port_, /*use_ssl=*/0, nullptr, 0);
    if (visitor != nullptr) mg_close_connection(visitor);
  }
}

int HttpServer::OnRequest(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  return static_cast<const HttpServer*>(request->user_data)
      ->Respond(connection);
}

// Checks the host first: a page of another site learns nothing else.
int HttpServer::Respond(mg_connection* connection) const {
  const mg_request_info* const request = mg_get_request_info(connection);
  const char* const host = mg_get_header(connection, "Host");
  if (host == nullptr || !IsOurHost(host, options_.host_names)) {
    return Refuse(
        connection, 403, "Forbidden",
        "This status page is not served under that host name. Ask for it by an "
        "IP address or as localhost, or add the name to "
        "AdminPageOptions::host_names.");
  }
  if (absl::string_view(request->request_method) != "GET") {
    return Refuse(connection, 405, "Method Not Allowed",
                  "This status page can only be read, by GET.",
                  "Allow: GET\r\n");
  }
  const std::unique_ptr<Answer> answer = handler_(request->local_uri);
  if (answer == nullptr) {
    return Refuse(connection, 404, "Not Found",
                  "The page is at /, and its data at /status.json.");
  }
  return Send(connection, 200, "OK", *answer);
}

}  // namespace verbena::internal
