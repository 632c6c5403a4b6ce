#include "transport/soft/link/cm_message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "transport/soft/link/link.h"

namespace verbena::soft {
namespace {

using Kind = CmReceived::Kind;

int OpenDescriptors() {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

// Two ends of one socket: a correct one and one that may send anything.
class CmMessageTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    good_ = base::UniqueFd(ends[0]);
    bad_ = base::UniqueFd(ends[1]);
    event_ = base::UniqueFd(::eventfd(0, EFD_CLOEXEC));
  }

  // Sends `bytes` and `count` descriptors from the end that may send anything.
  void SendRaw(std::string bytes, int count = 0) {
    iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    std::vector<char> control(CMSG_SPACE(sizeof(int) * count));
    if (count > 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
      for (int i = 0; i < count; ++i) {
        const int fd = event_.get();
        std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(fd));
      }
    }
    ASSERT_EQ(::sendmsg(bad_.get(), &header, 0),
              static_cast<ssize_t>(bytes.size()));
  }

  static std::string Bytes(const CmMessage& message) {
    return std::string(reinterpret_cast<const char*>(&message),
                       sizeof(message));
  }

  // Receives one message, when the descriptors that came before it have been
  // closed.
  Kind Receive() {
    Kind kind;
    do {
      kind = ReceiveCmMessage(good_.get()).kind;
    } while (kind == Kind::kLater);
    return kind;
  }

  base::UniqueFd good_;
  base::UniqueFd bad_;
  base::UniqueFd event_;
};

TEST_F(CmMessageTest, CarriesEveryField) {
  CmMessage message = {.type = CmMessageType::kConnectRequest,
                       .responder_resources = 1,
                       .initiator_depth = 2,
                       .retry_count = 3,
                       .rnr_retry_count = 4,
                       .qp_num = 0x123456};
  message.private_data.fill(7);
  message.SetDestination(*base::SocketAddress::Parse("10.0.0.7:50051"));
  ASSERT_EQ(SendCmMessage(bad_.get(), message, event_.get()), 0);
  const CmReceived received = ReceiveCmMessage(good_.get());
  ASSERT_EQ(received.kind, Kind::kMessage);
  EXPECT_EQ(Bytes(received.message), Bytes(message));
  EXPECT_EQ(received.message.Destination().ToString(), "10.0.0.7:50051");
  ASSERT_TRUE(received.fd.valid());
  EXPECT_NE(::fcntl(received.fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(CmMessageTest, CarriesIpv6Destinations) {
  CmMessage message;
  message.SetDestination(*base::SocketAddress::Parse("[fe80::1%lo]:7"));
  EXPECT_EQ(message.Destination().ToString(), "[fe80::1%lo]:7");
  message.destination_family = 77;
  EXPECT_TRUE(message.Destination().empty());
}

TEST_F(CmMessageTest, SaysWhenThereIsNothing) {
  EXPECT_EQ(Receive(), Kind::kNothing);
}

TEST_F(CmMessageTest, KnowsDoorbells) {
  SendRaw(std::string(1, static_cast<char>(kDoorbell)));
  EXPECT_EQ(Receive(), Kind::kDoorbell);
}

TEST_F(CmMessageTest, DeliversWhatCameBeforeTheEnd) {
  SendCmMessage(bad_.get(), {.type = CmMessageType::kReject});
  // The other end has something unread, so that closing it resets this one.
  SendCmMessage(good_.get(), {.type = CmMessageType::kDisconnect});
  bad_.Reset();
  EXPECT_EQ(Receive(), Kind::kMessage);
  EXPECT_EQ(Receive(), Kind::kEnd);
  EXPECT_EQ(Receive(), Kind::kEnd);
}

TEST_F(CmMessageTest, RefusesGarbage) {
  const std::string correct = Bytes({.type = CmMessageType::kReject});
  SendRaw("x");
  SendRaw(correct + "x");
  SendRaw(correct.substr(1));
  SendRaw(std::string(10000, 'x'));
  CmMessage other_version = {.type = CmMessageType::kReject};
  other_version.version = kCmVersion + 1;
  SendRaw(Bytes(other_version));
  SendRaw(Bytes({.type = static_cast<CmMessageType>(0)}));
  SendRaw(Bytes({.type = static_cast<CmMessageType>(7)}));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(Receive(), Kind::kGarbage) << i;
  SendRaw(correct);
  EXPECT_EQ(Receive(), Kind::kMessage);
}

TEST_F(CmMessageTest, ClosesDescriptorsThatNobodyAskedFor) {
  const int before = OpenDescriptors();
  const std::string correct = Bytes({.type = CmMessageType::kConnectRequest});
  SendRaw(correct, 2);
  EXPECT_EQ(Receive(), Kind::kGarbage);
  SendRaw(correct, 100);
  EXPECT_EQ(Receive(), Kind::kGarbage);
  SendRaw("x", 1);
  EXPECT_EQ(Receive(), Kind::kGarbage);
  SendRaw(std::string(1, static_cast<char>(kDoorbell)), 1);
  EXPECT_EQ(Receive(), Kind::kGarbage);
  while (OpenDescriptors() > before) std::this_thread::yield();
}

TEST_F(CmMessageTest, NeverBlocksWhenThePeerDoesNotRead) {
  int error = 0;
  for (int i = 0; i < 100000 && error == 0; ++i) {
    error = SendCmMessage(good_.get(), {.type = CmMessageType::kDisconnect});
  }
  EXPECT_EQ(error, EAGAIN);
}

TEST_F(CmMessageTest, SaysThatThePeerIsGoneWithoutASignal) {
  bad_.Reset();
  EXPECT_EQ(SendCmMessage(good_.get(), CmMessage()), EPIPE);
}

}  // namespace
}  // namespace verbena::soft
