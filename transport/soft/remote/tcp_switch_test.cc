#include "transport/soft/remote/tcp_switch.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/base/socket_address.h"
#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {
namespace {

// A process that wants to be reached.
class Owner {
 public:
  explicit Owner(uint16_t port)
      : engine_(std::make_unique<Engine>()),
        port_switch_(std::make_unique<TcpSwitch>(*engine_, port, users_)) {
    port_switch_->Start();
  }
  ~Owner() { engine_.reset(); }  // The thread first.

  void AwaitStart() {
    engine_->RunAndCatchUp([] {}, std::chrono::seconds(10));
  }

 private:
  const PeerUsers users_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TcpSwitch> port_switch_;
};

class TcpSwitchTest : public testing::Test {
 protected:
  // No other test process uses this port.
  const uint16_t port_ = static_cast<uint16_t>(20000 + ::getpid() % 10000);

  // Connects, as soon as somebody has the port.
  base::UniqueFd Connect() {
    const auto address = base::SocketAddress::Loopback(AF_INET, port_);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), address.get(), address.size()) == 0) {
        return socket;
      }
      std::this_thread::yield();
    }
    ADD_FAILURE() << "nobody has port " << port_;
    return base::UniqueFd();
  }
  // Reads up to `length` bytes, or to the end; returns how many there were.
  static size_t ReadAll(int socket, void* bytes, size_t length) {
    size_t got = 0;
    while (got < length) {
      const ssize_t more =
          ::recv(socket, static_cast<char*>(bytes) + got, length - got, 0);
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    return got;
  }
};

TEST_F(TcpSwitchTest, ClosesWhatIsForNobodyOrNoPreamble) {
  Owner owner(port_);
  TcpPreamble garbage;
  garbage.magic = 1;
  TcpPreamble nobody;
  nobody.to = 1;
  for (const TcpPreamble& preamble : {garbage, nobody}) {
    const base::UniqueFd socket = Connect();
    ::send(socket.get(), &preamble, sizeof(preamble), 0);
    char byte;
    EXPECT_EQ(ReadAll(socket.get(), &byte, 1), 0u);
  }
}

TEST_F(TcpSwitchTest, AnotherTakesThePortWhenItsOwnerIsGone) {
  auto first = std::make_unique<Owner>(port_);
  EXPECT_TRUE(Connect().valid());
  Owner second(port_);
  first.reset();
  const base::UniqueFd socket = Connect();
  const TcpPreamble preamble;
  ::send(socket.get(), &preamble, sizeof(preamble), 0);
  char byte;
  EXPECT_EQ(ReadAll(socket.get(), &byte, 1), 0u);
}

TEST_F(TcpSwitchTest, SaysThatAnotherProgramHasThePort) {
  const base::UniqueFd other(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Connections of other tests may not have let go of the port yet.
  const int yes = 1;
  ::setsockopt(other.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const auto any = base::SocketAddress::Any(AF_INET6, port_);
  ASSERT_EQ(::bind(other.get(), any.get(), any.size()), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  testing::internal::CaptureStderr();
  Owner(port_).AwaitStart();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("is taken by another program"));
}

}  // namespace
}  // namespace verbena::soft
