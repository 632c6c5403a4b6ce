#include "transport/soft/base/peer_users.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "gtest/gtest.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/other_user.h"

namespace verbena::soft {
namespace {

TEST(PeerUsersTest, AllowsItsOwnUserAndRoot) {
  const PeerUsers users;
  EXPECT_TRUE(users.Allows(::geteuid()));
  EXPECT_TRUE(users.Allows(0));
  EXPECT_FALSE(users.Allows(kOtherUserId));
}

TEST(PeerUsersTest, AllowsThoseThatAreNamed) {
  const PeerUsers users("12,54321");
  EXPECT_TRUE(users.Allows(12));
  EXPECT_TRUE(users.Allows(kOtherUserId));
  EXPECT_FALSE(users.Allows(13));
  EXPECT_TRUE(PeerUsers("any").Allows(13));
}

TEST(PeerUsersTest, NonsenseAllowsNobodyElse) {
  for (const char* const text : {"", "all", "any,12x", "-1", ",", "1e9"}) {
    EXPECT_FALSE(PeerUsers(text).Allows(kOtherUserId)) << text;
    EXPECT_TRUE(PeerUsers(text).Allows(::geteuid())) << text;
  }
}

TEST(PeerUsersTest, AsksTheKernelWhoseTheOtherEndIs) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const base::UniqueFd a(sockets[0]);
  const base::UniqueFd b(sockets[1]);
  EXPECT_TRUE(PeerUsers().AllowsPeerOf(a.get()));
  EXPECT_EQ(PeerUsers::UserOf(a.get()), ::geteuid());
  const base::UniqueFd alone(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  EXPECT_FALSE(PeerUsers().AllowsPeerOf(alone.get()));
  EXPECT_EQ(PeerUsers::UserOf(alone.get()), std::nullopt);
}

}  // namespace
}  // namespace verbena::soft
