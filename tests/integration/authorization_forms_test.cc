// Tests of an authorization policy with calls of each kind in each form.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/authorization/authorization_policy_provider.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/interceptors_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

using testing::IsEmpty;

// The methods that Call() calls, by the kind of the call.
constexpr const char* kMethods[kKinds] = {"Echo", "List", "Record", "Chat"};

const absl::Status kDenied =
    absl::PermissionDeniedError("Unauthorized RPC request rejected.");

// A server that knows two clients by the keys "red" and "blue", with a policy.
class EachFormAuthorizationTest : public EachFormInterceptorsTest {
 protected:
  void Serve(const std::string& policy) {
    const std::map<std::string, std::string> secrets = {
        {"red", std::string(32, 'r')}, {"blue", std::string(32, 'b')}};
    auto keys = std::make_shared<SharedSecretKeys>();
    ASSERT_EQ(keys->Replace(secrets), absl::OkStatus());
    auto provider = StaticDataAuthorizationPolicyProvider::Create(policy);
    ASSERT_EQ(provider.status(), absl::OkStatus());
    builder_.SetAuthorizationPolicyProvider(*std::move(provider));
    services_ = std::make_unique<FormServices>(std::get<1>(GetParam()));
    services_->Register(&builder_);
    int port = 0;
    const std::string host = testing_support::TestAddress();
    builder_.AddListeningPort(absl::StrCat(host, ":0"),
                              SharedSecretServerCredentials(keys), &port);
    auto started = builder_.BuildAndStart();
    ASSERT_EQ(started.status(), absl::OkStatus());
    server_ = *std::move(started);
    for (const auto& [name, secret] : secrets) {
      clients_[name] = FormClient::New(
          std::get<0>(GetParam()),
          CreateChannel(absl::StrCat(host, ":", port),
                        SharedSecretCredentials(name, secret), options_));
    }
  }
  // Makes a call as the client of that key.
  absl::Status CallAs(const std::string& key, int kind) {
    client_ = std::move(clients_[key]);
    absl::Status status = Call(kind).status;
    clients_[key] = std::move(client_);
    return status;
  }

 private:
  std::map<std::string, std::unique_ptr<FormClient>> clients_;
};

INSTANTIATE_TEST_SUITE_P(Forms, EachFormAuthorizationTest, EachFormOfBoth(),
                         NameOfBoth);

TEST_P(EachFormAuthorizationTest, AClientMayCallWhatARuleAllowsIt) {
  Serve(R"({"name": "p", "allow_rules": [
      {"name": "red", "source": {"principals": ["red"]},
       "request": {"paths": ["*/Echo", "*/Record"]}},
      {"name": "blue", "source": {"principals": ["bl*"]},
       "request": {"paths": ["*/List", "*/Chat"]}}]})");
  for (int kind = 0; kind < kKinds; ++kind) {
    const bool of_red = kind % 2 == 0;
    EXPECT_EQ(CallAs("red", kind), of_red ? absl::OkStatus() : kDenied)
        << kMethods[kind];
    EXPECT_EQ(CallAs("blue", kind), of_red ? kDenied : absl::OkStatus())
        << kMethods[kind];
  }
}

TEST_P(EachFormAuthorizationTest, InterceptorsAndHandlersSeeNoDeniedCall) {
  AddClient();
  AddServer();
  Serve(R"({"name": "p", "allow_rules": [{"name": "all"}],
            "deny_rules": [{"name": "not red",
                            "source": {"principals": ["red"]}}]})");
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(CallAs("red", kind), kDenied) << kMethods[kind];
  }
  // The interceptor of the server is told before the handler runs.
  EXPECT_THAT(journal_.Of("server"), IsEmpty());
  EXPECT_EQ(journal_.Count("client1 end PERMISSION_DENIED"), size_t{kKinds});
  for (int kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(CallAs("blue", kind), absl::OkStatus()) << kMethods[kind];
  }
  journal_.Await("server1 end OK", kKinds);
  EXPECT_EQ(journal_.Count("server1 start"), size_t{kKinds});
}

}  // namespace
}  // namespace verbena::end_to_end
