// A client that asks a web server, for tests.

#ifndef VERBENA_RPC_SERVICES_ADMIN_HTTP_GET_H_
#define VERBENA_RPC_SERVICES_ADMIN_HTTP_GET_H_

#include <civetweb.h>

#include <array>
#include <string>

namespace verbena::internal {

struct HttpAnswer {
  int status = 0;  // 0: there was none.
  std::string body;
  std::string policy;       // Its Content-Security-Policy.
  bool any_origin = false;  // Other sites may read it.
};

// Sends `head`, a request with its headers, to a port of this host.
inline HttpAnswer Ask(int port, const std::string& head) {
  std::array<char, 256> error = {};
  HttpAnswer answer;
  mg_connection* const connection =
      mg_download("127.0.0.1", port, /*use_ssl=*/0, error.data(), error.size(),
                  "%s\r\n", head.c_str());
  if (connection == nullptr) return answer;
  answer.status = mg_get_response_info(connection)->status_code;
  const char* const policy =
      mg_get_header(connection, "Content-Security-Policy");
  if (policy != nullptr) answer.policy = policy;
  answer.any_origin =
      mg_get_header(connection, "Access-Control-Allow-Origin") != nullptr;
  std::array<char, 4096> part;
  int bytes = 0;
  while ((bytes = mg_read(connection, part.data(), part.size())) > 0) {
    answer.body.append(part.data(), static_cast<size_t>(bytes));
  }
  mg_close_connection(connection);
  return answer;
}

inline HttpAnswer Get(int port, const std::string& path) {
  return Ask(port, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n");
}

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SERVICES_ADMIN_HTTP_GET_H_
