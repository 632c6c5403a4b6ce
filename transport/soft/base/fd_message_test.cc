#include "transport/soft/base/fd_message.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>

#include "gtest/gtest.h"

namespace verbena::soft {
namespace {

class FdMessageTest : public testing::Test {
 protected:
  FdMessageTest() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    a_ = base::UniqueFd(sockets[0]);
    b_ = base::UniqueFd(sockets[1]);
  }
  static auto OpenDescriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         {});
  }
  static ino_t FileOf(int fd) {
    struct stat info;
    EXPECT_EQ(::fstat(fd, &info), 0);
    return info.st_ino;
  }

  base::UniqueFd a_;
  base::UniqueFd b_;
  char text_[8] = {};
};

TEST_F(FdMessageTest, CarriesBytesAndDescriptorsInOrder) {
  ASSERT_EQ(SendFdMessage(a_.get(), "hi", 2, {a_.get(), b_.get()}), 0);
  const FdMessage message = ReceiveFdMessage(b_.get(), text_, sizeof(text_));
  EXPECT_EQ(message.length, 2);
  EXPECT_STREQ(text_, "hi");
  ASSERT_EQ(message.fd_count, 2u);
  EXPECT_EQ(FileOf(message.fds[0].get()), FileOf(a_.get()));
  EXPECT_EQ(FileOf(message.fds[1].get()), FileOf(b_.get()));
  EXPECT_FALSE(message.cut);
}

TEST_F(FdMessageTest, SaysThatBytesWereCut) {
  ASSERT_EQ(SendFdMessage(a_.get(), "123456789", 9, kNoFds), 0);
  EXPECT_TRUE(ReceiveFdMessage(b_.get(), text_, sizeof(text_)).cut);
}

TEST_F(FdMessageTest, MoreDescriptorsThanExpectedLeakNone) {
  union {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * 3)];
  } control = {};
  iovec part = {.iov_base = text_, .iov_len = 1};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof(control.bytes);
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int) * 3);
  for (int i = 0; i < 3; ++i) {
    reinterpret_cast<int*>(CMSG_DATA(&control.header))[i] = a_.get();
  }
  ASSERT_EQ(::sendmsg(a_.get(), &header, 0), 1);
  const auto before = OpenDescriptors();
  EXPECT_TRUE(ReceiveFdMessage(b_.get(), text_, sizeof(text_)).cut);
  while (OpenDescriptors() > before) std::this_thread::yield();
}

TEST_F(FdMessageTest, AnEmptySocketIsNoEnd) {
  const FdMessage none = ReceiveFdMessage(b_.get(), text_, sizeof(text_));
  EXPECT_LT(none.length, 0);
  EXPECT_EQ(none.error, EAGAIN);
  a_.Reset();
  EXPECT_EQ(ReceiveFdMessage(b_.get(), text_, sizeof(text_)).length, 0);
}

TEST_F(FdMessageTest, NobodyByThatNameRefuses) {
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  EXPECT_EQ(SendFdMessage(socket.get(), "x", 1, kNoFds,
                          std::string_view("\0verbena-soft-test/none", 23)),
            ECONNREFUSED);
}

}  // namespace
}  // namespace verbena::soft
