#include "rpc/services/admin/http_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rpc/services/admin/http_get.h"

namespace verbena::internal {
namespace {

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    auto server = HttpServer::Start(
        {"127.0.0.1:0", {"status.example"}}, [](absl::string_view path) {
          if (path != "/there") return std::unique_ptr<HttpServer::Answer>();
          return std::make_unique<HttpServer::Answer>(
              HttpServer::Answer{"text/plain", "something", "default-src 'x'"});
        });
    EXPECT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
  }

  HttpAnswer AskFor(const std::string& method, const std::string& host) {
    return Ask(server_->port(), absl::StrCat(method, " /there HTTP/1.1\r\n",
                                             "Host: ", host, "\r\n"));
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersWhatItsHandlerDoes) {
  const HttpAnswer answer = Get(server_->port(), "/there");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "something");
  EXPECT_EQ(answer.policy, "default-src 'x'");
  EXPECT_FALSE(answer.any_origin);
}

TEST_F(HttpServerTest, ElsewhereIsNothing) {
  EXPECT_EQ(Get(server_->port(), "/elsewhere").status, 404);
  EXPECT_EQ(Get(server_->port(), "/../../etc/passwd").status, 404);
}

TEST_F(HttpServerTest, CanOnlyBeRead) {
  for (const char* method :
       {"POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"}) {
    const HttpAnswer answer = AskFor(method, "localhost");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_FALSE(answer.any_origin) << method;
  }
}

TEST_F(HttpServerTest, ABrowserIsNotToldThatOtherSitesMayRead) {
  const HttpAnswer answer = Ask(server_->port(),
                                "OPTIONS /there HTTP/1.1\r\nHost: localhost\r\n"
                                "Origin: http://evil.example\r\n"
                                "Access-Control-Request-Method: GET\r\n");
  EXPECT_EQ(answer.status, 405);
  EXPECT_FALSE(answer.any_origin);
}

TEST_F(HttpServerTest, GoesByNoNameButItsOwn) {
  EXPECT_EQ(AskFor("GET", "evil.example").status, 403);
  EXPECT_EQ(
      AskFor("GET", absl::StrCat("evil.example:", server_->port())).status,
      403);
  EXPECT_EQ(AskFor("GET", "127.0.0.1.evil.example").status, 403);
  EXPECT_EQ(AskFor("GET", "").status, 403);
  EXPECT_EQ(Ask(server_->port(), "GET /there HTTP/1.0\r\n").status, 403);
  EXPECT_EQ(AskFor("GET", "Status.Example").status, 200);
  EXPECT_EQ(AskFor("GET", absl::StrCat("[::1]:", server_->port())).status, 200);
}

TEST_F(HttpServerTest, ARequestBeyondTheLimitIsRefused) {
  const HttpAnswer answer =
      Ask(server_->port(), absl::StrCat("GET /", std::string(8000, 'x'),
                                        " HTTP/1.1\r\nHost: localhost\r\n"));
  EXPECT_NE(answer.status, 200);
  EXPECT_EQ(Get(server_->port(), "/there").status, 200);
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  const std::string taken = absl::StrCat("127.0.0.1:", server_->port());
  const auto other = HttpServer::Start({taken, {}}, nullptr);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(other.status().message().find(taken), std::string::npos)
      << other.status();
  for (const char* address :
       {"nonsense", "8080", "+8080", "", "localhost:0", "[::1]:0"}) {
    EXPECT_EQ(HttpServer::Start({address, {}}, nullptr).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(HttpServer, HostsAreIpAddressesAndKnownNames) {
  for (const char* host : {"10.0.0.1", "10.0.0.1:80", "[::1]", "[fe80::1]:80",
                           "localhost", "LOCALHOST:80"}) {
    EXPECT_TRUE(HttpServer::IsOurHost(host, {})) << host;
  }
  for (const char* host : {"", ":80", "[", "[]", "[::1", "10.0.0", "a.example",
                           "localhost.a.example", "::1"}) {
    EXPECT_FALSE(HttpServer::IsOurHost(host, {})) << host;
  }
}

}  // namespace
}  // namespace verbena::internal
