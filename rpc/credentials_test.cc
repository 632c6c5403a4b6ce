#include "rpc/credentials.h"

#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using transport::PeerFacts;

void ExpectRefusal(const absl::Status& status, const std::string& why) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(LocalCredentialsTest, BelieveTheKernel) {
  const PeerFacts same_user = {.user = ::geteuid()};
  const auto client = LocalCredentials()->Begin(same_user);
  const absl::StatusOr<std::string> hello = client->Hello();
  ASSERT_EQ(hello.status(), absl::OkStatus());
  const auto server = LocalServerCredentials()->Begin(same_user);
  const auto answer = server->OnMessage(*hello, "");
  ASSERT_EQ(answer.status(), absl::OkStatus());
  EXPECT_EQ(client->Finish(answer->message, ""), absl::OkStatus());
  ASSERT_NE(answer->peer, nullptr);
  EXPECT_TRUE(answer->peer->IsPeerAuthenticated());
  EXPECT_EQ(answer->peer->GetPeerIdentityPropertyName(), "user");
  EXPECT_THAT(answer->peer->GetPeerIdentity(),
              ElementsAre(std::to_string(::geteuid())));
  EXPECT_THAT(answer->peer->FindPropertyValues(kSecurityTypeProperty),
              ElementsAre("local"));
}

TEST(LocalCredentialsTest, RefuseOtherUsers) {
  const PeerFacts other_user = {.user = ::geteuid() + 1};
  ExpectRefusal(LocalCredentials()->Begin(other_user)->Hello().status(),
                "the server is a process of user");
  ExpectRefusal(
      LocalServerCredentials()->Begin(other_user)->OnMessage("", "").status(),
      "the client is a process of user");
}

TEST(LocalCredentialsTest, RefuseWhomTheKernelDoesNotKnow) {
  ExpectRefusal(LocalCredentials()->Begin({})->Hello().status(),
                "does not vouch for the server");
  ExpectRefusal(LocalServerCredentials()->Begin({})->OnMessage("", "").status(),
                "does not vouch for the client");
}

TEST(LocalCredentialsTest, AServerAsksNothing) {
  const auto client = LocalCredentials()->Begin({.user = ::geteuid()});
  ASSERT_TRUE(client->Hello().ok());
  ExpectRefusal(client->Answer("who are you?", "").status(), "challenge");
}

TEST(InsecureCredentialsTest, AreOfNoKind) {
  EXPECT_EQ(InsecureChannelCredentials()->kind(), "");
  EXPECT_EQ(InsecureServerCredentials()->kind(), "");
}

TEST(AuthContextTest, APropertyMayBeTheIdentity) {
  AuthContext context;
  EXPECT_FALSE(context.IsPeerAuthenticated());
  EXPECT_THAT(context.GetPeerIdentity(), IsEmpty());
  EXPECT_FALSE(context.SetPeerIdentityPropertyName("name"));
  EXPECT_FALSE(context.SetPeerIdentityPropertyName(""));
  EXPECT_FALSE(context.IsPeerAuthenticated());
  context.AddProperty("name", "Ada");
  context.AddProperty("name", "Lovelace");
  EXPECT_FALSE(context.IsPeerAuthenticated());
  EXPECT_TRUE(context.SetPeerIdentityPropertyName("name"));
  EXPECT_TRUE(context.IsPeerAuthenticated());
  EXPECT_THAT(context.GetPeerIdentity(), ElementsAre("Ada", "Lovelace"));
  EXPECT_THAT(context.FindPropertyValues("age"), IsEmpty());
}

}  // namespace
}  // namespace verbena
