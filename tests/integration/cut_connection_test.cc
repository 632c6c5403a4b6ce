// TCP connections that are cut at a certain byte, as by a host that has started
// anew, or by a firewall that has lost its state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/network_of_own.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;

// Far more than anything takes.
constexpr absl::Duration kPatience = absl::Seconds(60);
// A message that the receiver takes in many parts.
constexpr size_t kLarge = size_t{4} << 20;

enum Way { kToServer, kToClient };

// Passes bytes between a client and a server, one connection at a time. Resets
// that connection in both directions (RST) after the byte that was asked for.
class Cutter {
 public:
  explicit Cutter(const base::SocketAddress& server) : server_(server) {
    CHECK_EQ(soft::OpenTcpListener(*base::SocketAddress::ParseNumeric(
                                       absl::StrCat(soft::kOwnAddress, ":0")),
                                   /*ipv6_only=*/false, listener_),
             0);
    thread_ = std::thread([this] { PassConnections(); });
  }
  ~Cutter() {
    stopping_ = true;
    thread_.join();
  }

  std::string address() const {
    return soft::TcpLocalAddress(listener_.get()).ToString();
  }

  // Passes so many more bytes in this direction, and then cuts. Any number of
  // connections may come before.
  void CutAfter(Way way, int64_t bytes) { left_[way] = bytes; }

  int cuts() const { return cuts_; }

  // Waits until no connection is passed on.
  void AwaitEnd() const {
    while (passing_) std::this_thread::yield();
  }

 private:
  // How long a thread waits before it looks whether to stop.
  static constexpr int kPollMs = 10;

  static bool IsReady(int socket, int16_t events) {
    pollfd one = {.fd = socket, .events = events, .revents = 0};
    return ::poll(&one, 1, kPollMs) > 0;
  }

  void PassConnections() {
    while (!stopping_) {
      if (!IsReady(listener_.get(), POLLIN)) continue;
      base::UniqueFd client(::accept4(listener_.get(), nullptr, nullptr,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
      base::UniqueFd server;
      CHECK(client.valid());
      CHECK_EQ(soft::StartTcpConnect({}, server_, 0, server), 0);
      while (!stopping_ && !IsReady(server.get(), POLLOUT)) {
      }
      passing_ = true;
      Pass({client.get(), server.get()});
      passing_ = false;
    }
  }

  // Until either end closes, or the connection is cut. `ends` are of the client
  // and of the server.
  void Pass(const std::array<int, 2>& ends) {
    while (!stopping_) {
      std::array<pollfd, 2> sockets = {
          {{.fd = ends[0], .events = POLLIN, .revents = 0},
           {.fd = ends[1], .events = POLLIN, .revents = 0}}};
      ::poll(sockets.data(), sockets.size(), kPollMs);
      for (const Way way : {kToServer, kToClient}) {
        if (sockets[way].revents != 0 &&
            !PassPart(ends[way], ends[1 - way], way)) {
          return;
        }
      }
    }
  }

  // Returns false if the connection has ended.
  bool PassPart(int from, int to, Way way) {
    std::array<char, 65536> bytes;
    const int64_t left = left_[way];
    const size_t most =
        static_cast<size_t>(std::min(left, static_cast<int64_t>(bytes.size())));
    const ssize_t got = ::recv(from, bytes.data(), most, 0);
    if (most > 0 && got <= 0) return false;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t part =
          ::send(to, bytes.data() + sent, static_cast<size_t>(got - sent),
                 MSG_NOSIGNAL);
      if (part < 0 && (errno != EAGAIN || stopping_)) return false;
      if (part < 0) {
        IsReady(to, POLLOUT);
      } else {
        sent += part;
      }
    }
    if (left == kNever) return true;
    left_[way] = left - got;
    if (left > got) return true;
    Cut(from);
    Cut(to);
    left_[way] = kNever;
    ++cuts_;
    return false;
  }

  // Lets the close of the socket send a RST at once.
  static void Cut(int socket) {
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(
        ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
        0);
  }

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  const base::SocketAddress server_;
  base::UniqueFd listener_;
  std::array<std::atomic<int64_t>, 2> left_ = {kNever, kNever};
  std::atomic<int> cuts_{0};
  std::atomic<bool> passing_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class CutConnectionTest : public testing::TestWithParam<Way> {
 protected:
  CutConnectionTest() {
    absl::StatusOr<std::unique_ptr<Server>> server =
        ServerBuilder()
            .AddListeningPort(absl::StrCat(soft::kOwnAddress, ":0"))
            .RegisterService(&service_)
            .BuildAndStart();
    CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
    cutter_.emplace(*base::SocketAddress::ParseNumeric(
        server_->listening().front().address));
    stub_ = EndToEnd::NewStub(CreateChannel(cutter_->address()));
  }

  // A call that has waited for a connection before it begins.
  absl::Status Echo(size_t bytes) {
    ClientContext context;
    context.set_wait_for_ready(true);
    context.set_timeout(kPatience);
    EchoRequest request;
    request.set_payload(Pattern(bytes, 1));
    EchoReply reply;
    absl::Status status = stub_->Echo(&context, request, &reply);
    if (status.ok()) {
      EXPECT_TRUE(reply.payload() == request.payload());
    }
    return status;
  }

  // How a call ends whose connection is cut after so many bytes.
  // Acknowledgements of the call before may come late and be the first of these
  // bytes. Then the call begins after the cut, and ends well on another
  // connection.
  absl::Status CutCall(int64_t after) {
    absl::Status status;
    for (int tries = 0; status.ok() && tries < 20; ++tries) {
      EXPECT_EQ(Echo(64), absl::OkStatus());
      const int cuts = cutter_->cuts();
      cutter_->CutAfter(GetParam(), after);
      status = Echo(kLarge);
      EXPECT_EQ(cutter_->cuts(), cuts + 1) << after;
    }
    return status;
  }

  EndToEndService service_;
  std::unique_ptr<Server> server_;
  std::optional<Cutter> cutter_;
  std::unique_ptr<EndToEnd::Stub> stub_;
};

// From within the first header to almost all of the message.
TEST_P(CutConnectionTest, InMidMessageTheCallEndsAndTheNextConnects) {
  for (const int64_t after : {1, 10, 50, 5000, 100'000, 4'000'000}) {
    const absl::Time begin = absl::Now();
    const absl::Status status = CutCall(after);
    EXPECT_TRUE(absl::IsUnavailable(status)) << after << ": " << status;
    // Either "closed" or "failed", whichever is noticed first.
    EXPECT_THAT(status.ToString(), HasSubstr(cutter_->address()));
    EXPECT_LT(absl::Now() - begin, kPatience / 2) << after;
    EXPECT_EQ(Echo(kLarge), absl::OkStatus()) << after;
  }
}

// Before there is a connection no call is on it: the channel tries again.
TEST_P(CutConnectionTest, WhileItConnectsNoCallIsLost) {
  int cuts = 0;
  for (const int64_t after : {0, 1, 15, 30, 70, 150}) {
    stub_.reset();
    cutter_->AwaitEnd();
    cutter_->CutAfter(GetParam(), after);
    stub_ = EndToEnd::NewStub(CreateChannel(cutter_->address()));
    EXPECT_EQ(Echo(64), absl::OkStatus()) << after;
    EXPECT_EQ(cutter_->cuts(), ++cuts) << after;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CutConnectionTest,
                         testing::Values(kToServer, kToClient),
                         [](const auto& way) {
                           return std::string(way.param == kToServer
                                                  ? "ToTheServer"
                                                  : "ToTheClient");
                         });

}  // namespace
}  // namespace verbena::end_to_end

// All peers are reached by TCP, in a network of this process.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::soft::EnterNetworkOfOurOwn();
  verbena::soft::ReachAllPeersByNetwork();
  setenv("VERBENA_DEVICE", "soft", 1);
  return RUN_ALL_TESTS();
}
