#include "rpc/credentials/shared_secret.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/credentials.h"

namespace verbena {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using transport::ClientHandshake;
using transport::ServerHandshake;

constexpr char kHellos[] = "what both have said";
const std::string kOld(32, 'o');
const std::string kNew(32, 'n');

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status);
}

// A server with the keys "old" and "new", and what goes over one connection.
class SharedSecretTest : public testing::Test {
 protected:
  SharedSecretTest() {
    EXPECT_EQ(keys_->Replace({{"old", kOld}, {"new", kNew}}), absl::OkStatus());
    server_ = SharedSecretServerCredentials(keys_)->Begin({});
  }

  // Has a client say its HELLO; returns the server's challenge.
  std::string Challenge(const std::string& key_name,
                        const std::string& secret) {
    client_ = SharedSecretCredentials(key_name, secret)->Begin({});
    hello_ = *client_->Hello();
    return server_->OnMessage(hello_, kHellos)->message;
  }
  // Returns the server's answer to the proof of a client with that key
  // and secret.
  absl::StatusOr<ServerHandshake::Answer> Enter(const std::string& key_name,
                                                const std::string& secret) {
    proof_ = *client(key_name, secret);
    return server_->OnMessage(proof_, kHellos);
  }
  absl::StatusOr<std::string> client(const std::string& key_name,
                                     const std::string& secret) {
    const std::string challenge = Challenge(key_name, secret);
    return client_->Answer(challenge, kHellos);
  }

  const std::shared_ptr<SharedSecretKeys> keys_ =
      std::make_shared<SharedSecretKeys>();
  std::unique_ptr<ServerHandshake> server_;
  std::unique_ptr<ClientHandshake> client_;
  std::string hello_;
  std::string proof_;
};

TEST_F(SharedSecretTest, BothSidesBelieveWhoKnowsTheSecret) {
  const auto answer = Enter("new", kNew);
  ASSERT_EQ(answer.status(), absl::OkStatus());
  EXPECT_EQ(client_->Finish(answer->message, kHellos), absl::OkStatus());
  ASSERT_NE(answer->peer, nullptr);
  EXPECT_TRUE(answer->peer->IsPeerAuthenticated());
  EXPECT_EQ(answer->peer->GetPeerIdentityPropertyName(), "key_name");
  EXPECT_THAT(answer->peer->GetPeerIdentity(), ElementsAre("new"));
  EXPECT_THAT(answer->peer->FindPropertyValues(kSecurityTypeProperty),
              ElementsAre("shared_secret"));
}

TEST_F(SharedSecretTest, SeveralKeysAreValidAtOnce) {
  EXPECT_EQ(Enter("old", kOld).status(), absl::OkStatus());
}

TEST_F(SharedSecretTest, NobodyLearnsWhichKeysThereAre) {
  const absl::Status wrong = Enter("old", kNew).status();
  EXPECT_TRUE(IsRefusal(wrong)) << wrong;
  server_ = SharedSecretServerCredentials(keys_)->Begin({});
  EXPECT_EQ(Enter("no such key", kNew).status(), wrong);
}

TEST_F(SharedSecretTest, KeysMayBeReplacedWhileAClientProvesItself) {
  const std::string challenge = Challenge("old", kOld);
  ASSERT_EQ(keys_->Replace({{"new", kNew}}), absl::OkStatus());
  EXPECT_TRUE(IsRefusal(
      server_->OnMessage(*client_->Answer(challenge, kHellos), kHellos)
          .status()));
}

TEST_F(SharedSecretTest, AServerWithoutKeysRefusesEverybody) {
  ASSERT_EQ(keys_->Replace({}), absl::OkStatus());
  EXPECT_TRUE(IsRefusal(Enter("new", kNew).status()));
}

TEST_F(SharedSecretTest, AProofIsBoundToTheHellos) {
  const absl::StatusOr<std::string> proof = client("new", kNew);
  EXPECT_TRUE(
      IsRefusal(server_->OnMessage(*proof, "what both have sais").status()));
}

TEST_F(SharedSecretTest, TheServersProofIsBoundToTheHellos) {
  const auto answer = Enter("new", kNew);
  ASSERT_EQ(answer.status(), absl::OkStatus());
  EXPECT_TRUE(IsRefusal(client_->Finish(answer->message, "other hellos")));
}

TEST_F(SharedSecretTest, AProofIsOfNoUseForAnotherConnection) {
  ASSERT_EQ(Enter("new", kNew).status(), absl::OkStatus());
  server_ = SharedSecretServerCredentials(keys_)->Begin({});
  ASSERT_EQ(server_->OnMessage(hello_, kHellos).status(), absl::OkStatus());
  EXPECT_TRUE(IsRefusal(server_->OnMessage(proof_, kHellos).status()));
}

TEST_F(SharedSecretTest, AServerCannotSendTheClientsOwnProofBack) {
  ASSERT_EQ(Enter("new", kNew).status(), absl::OkStatus());
  const absl::Status status = client_->Finish(proof_, kHellos);
  EXPECT_TRUE(IsRefusal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not prove"));
}

TEST_F(SharedSecretTest, AServerThatAsksNothingIsNotBelieved) {
  client_ = SharedSecretCredentials("new", kNew)->Begin({});
  ASSERT_TRUE(client_->Hello().ok());
  EXPECT_TRUE(IsRefusal(client_->Finish("", kHellos)));
  EXPECT_TRUE(IsRefusal(client_->Finish(std::string(32, '\0'), kHellos)));
}

TEST_F(SharedSecretTest, AServerAsksOnce) {
  const std::string challenge = Challenge("new", kNew);
  ASSERT_TRUE(client_->Answer(challenge, kHellos).ok());
  EXPECT_TRUE(IsRefusal(client_->Answer(challenge, kHellos).status()));
}

TEST_F(SharedSecretTest, MessagesOfAnyLengthAreRefusedOrWrong) {
  for (size_t bytes = 0; bytes <= 400; ++bytes) {
    const std::string garbage(bytes, 'x');
    const auto server = SharedSecretServerCredentials(keys_)->Begin({});
    const auto asked = server->OnMessage(garbage, kHellos);
    EXPECT_EQ(asked.ok(), 32 < bytes && bytes <= 32 + kMaxKeyNameBytes);
    if (asked.ok()) {
      EXPECT_TRUE(IsRefusal(server->OnMessage(garbage, kHellos).status()));
    }
    const auto client = SharedSecretCredentials("new", kNew)->Begin({});
    ASSERT_TRUE(client->Hello().ok());
    EXPECT_EQ(client->Answer(garbage, kHellos).ok(), bytes == 32);
    EXPECT_TRUE(IsRefusal(client->Finish(garbage, kHellos)));
  }
}

TEST_F(SharedSecretTest, NoTwoConnectionsSayTheSame) {
  const std::string challenge = Challenge("new", kNew);
  const std::string hello = hello_;
  server_ = SharedSecretServerCredentials(keys_)->Begin({});
  EXPECT_NE(Challenge("new", kNew), challenge);
  EXPECT_NE(hello_, hello);
}

TEST_F(SharedSecretTest, NamesAndSecretsHaveBounds) {
  const std::string longest_name(kMaxKeyNameBytes, 'n');
  const std::string longest(kMaxSharedSecretBytes, 's');
  const std::string shortest(kMinSharedSecretBytes, 's');
  EXPECT_EQ(keys_->Replace({{longest_name, longest}, {"s", shortest}}),
            absl::OkStatus());
  server_ = SharedSecretServerCredentials(keys_)->Begin({});
  EXPECT_EQ(Enter(longest_name, longest).status(), absl::OkStatus());
  for (const auto& [name, secret] : {std::pair(std::string(), kNew),
                                     {longest_name + "n", kNew},
                                     {"new", longest + "s"},
                                     {"new", shortest.substr(1)}}) {
    const absl::Status status = keys_->Replace({{name, secret}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("bytes"));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr(secret)));
    EXPECT_EQ(
        SharedSecretCredentials(name, secret)->Begin({})->Hello().status(),
        status);
  }
  // The keys from before are still valid.
  server_ = SharedSecretServerCredentials(keys_)->Begin({});
  EXPECT_EQ(Enter("s", shortest).status(), absl::OkStatus());
}

}  // namespace
}  // namespace verbena
