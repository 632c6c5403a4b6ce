// Tests of authorization policies over real calls.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/authorization/authorization_policy_provider.h"
#include "rpc/byte_message.h"
#include "rpc/credentials.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/generic_service.h"
#include "rpc/generic_stub.h"
#include "rpc/metrics.h"
#include "rpc/services/health_service.h"
#include "rpc/services/reflection_service.h"
#include "rpc/task.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/test_device.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

const std::string kSecret(32, 's');
const std::string kPackage = "/verbena.end_to_end.";

const absl::Status kDenied =
    absl::PermissionDeniedError("Unauthorized RPC request rejected.");

// A policy with one allow rule for these principals and paths.
std::string Allowing(const std::string& principals, const std::string& paths) {
  return absl::StrCat(R"({"name": "p", "allow_rules": [{"name": "r", )",
                      R"("source": {"principals": [)", principals,
                      R"(]}, "request": {"paths": [)", paths, "]}}]}");
}

// A server with two ports: clients show credentials at one, and none at the
// other.
class AuthorizationTest : public EndToEndTest {
 protected:
  AuthorizationTest() {
    EXPECT_EQ(keys_->Replace({{"reader", kSecret}, {"writer", kSecret}}),
              absl::OkStatus());
  }
  ~AuthorizationTest() override { StopServer(); }

  void Serve(std::shared_ptr<AuthorizationPolicyProviderInterface> provider,
             const std::function<void(ServerBuilder&)>& change = {}) {
    StartServer([&](ServerBuilder& builder) {
      builder.SetAuthorizationPolicyProvider(std::move(provider))
          .AddListeningPort(Address(0), SharedSecretServerCredentials(keys_),
                            &guarded_port_);
      if (change) change(builder);
    });
  }
  void Serve(const std::string& policy,
             const std::function<void(ServerBuilder&)>& change = {}) {
    auto provider = StaticDataAuthorizationPolicyProvider::Create(policy);
    ASSERT_EQ(provider.status(), absl::OkStatus());
    Serve(*std::move(provider), change);
  }

  std::shared_ptr<Channel> ChannelOf(const std::string& key) const {
    return CreateChannel(Address(guarded_port_),
                         SharedSecretCredentials(key, kSecret));
  }
  // Makes a call that a worker answers.
  static absl::Status Echo(const std::shared_ptr<Channel>& channel,
                           const Metadata& metadata = {}) {
    ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    EchoReply reply;
    return EndToEnd::NewStub(channel)->Echo(&context, EchoRequest(), &reply);
  }

 private:
  const std::shared_ptr<SharedSecretKeys> keys_ =
      std::make_shared<SharedSecretKeys>();
  int guarded_port_ = 0;
};

TEST_F(AuthorizationTest, UnaryMethodsNeedARuleThatNamesThem) {
  Serve(Allowing(R"("reader")", absl::StrCat("\"", kPackage, "Inline/*\"")));
  const auto reader = ChannelOf("reader");
  ClientContext context;
  EchoReply reply;
  EXPECT_EQ(Inline::NewStub(reader)->Echo(&context, EchoRequest(), &reply),
            absl::OkStatus());
  EXPECT_EQ(Inline::NewStub(ChannelOf("writer"))
                ->Echo(&context, EchoRequest(), &reply),
            kDenied);
  EXPECT_EQ(Echo(reader), kDenied);
}

TEST_F(AuthorizationTest, ALargeRequestThatIsDeniedHoldsNothingUp) {
  Serve(Allowing(R"("reader")", R"("*")"));
  const auto writer = EndToEnd::NewStub(ChannelOf("writer"));
  const auto reader = EndToEnd::NewStub(ChannelOf("reader"));
  ClientContext context;
  EchoRequest request;
  request.set_payload(Pattern(1000000, 1));
  context.set_request_attachment(Bytes(request.payload()));
  for (int i = 0; i < 20; ++i) {
    EchoReply reply;
    EXPECT_EQ(writer->Echo(&context, request, &reply), kDenied);
    EXPECT_EQ(EchoProblem(*reader, 1000000, i), "");
  }
}

TEST_F(AuthorizationTest, StreamsNeedARuleToo) {
  Serve(Allowing(R"("writer")", R"("*/Record", "*/Chat")"));
  const auto writer = StreamService::NewStub(ChannelOf("writer"));
  const auto reader = StreamService::NewStub(ChannelOf("reader"));
  ClientContext context;
  Item item;
  {
    const auto list = writer->List(&context, ListRequest());
    EXPECT_FALSE(list->Read(&item));
    EXPECT_EQ(list->Finish(), kDenied);
  }
  Summary summary;
  {
    const auto record = writer->Record(&context, &summary);
    EXPECT_TRUE(record->Write(NewItem(0)));
    EXPECT_TRUE(record->WritesDone());
    EXPECT_EQ(record->Finish(), absl::OkStatus());
    EXPECT_EQ(summary.count(), 1u);
  }
  {
    // The client may write until it hears of the end.
    const auto record = reader->Record(&context, &summary);
    while (record->Write(NewItem(0, 10000))) {
    }
    EXPECT_EQ(record->Finish(), kDenied);
  }
  {
    const auto chat = writer->Chat(&context);
    EXPECT_TRUE(Echoes(*chat, NewItem(1, 100)));
    chat->WritesDone();
    EXPECT_EQ(chat->Finish(), absl::OkStatus());
  }
  const auto chat = reader->Chat(&context);
  EXPECT_FALSE(chat->Read(&item));
  EXPECT_EQ(chat->Finish(), kDenied);
}

Task<absl::Status> Ask(EndToEnd::Stub* stub, EchoReply* reply) {
  ClientContext context;
  EchoRequest request;
  request.set_payload("ask");
  co_return co_await stub->co()->Echo(&context, request, reply);
}

Task<absl::Status> Talk(StreamService::Stub* stub, int* answers) {
  ClientContext context;
  auto stream = stub->co()->Chat(&context);
  for (int i = 0; i < 3; ++i) {
    Item answer;
    if (!co_await stream.Write(NewItem(i)) || !co_await stream.Read(&answer)) {
      break;
    }
    ++*answers;
  }
  stream.WritesDone();
  co_return co_await stream.Finish();
}

TEST_F(AuthorizationTest, CoroutinesAreToldAsOthersAre) {
  Serve(Allowing(R"("writer")", R"("*")"));
  EchoReply reply;
  int answers = 0;
  const auto writer = ChannelOf("writer");
  EXPECT_EQ(SyncWait(Ask(EndToEnd::NewStub(writer).get(), &reply)),
            absl::OkStatus());
  EXPECT_EQ(reply.payload(), "ask");
  EXPECT_EQ(SyncWait(Talk(StreamService::NewStub(writer).get(), &answers)),
            absl::OkStatus());
  EXPECT_EQ(answers, 3);
  const auto reader = ChannelOf("reader");
  EXPECT_EQ(SyncWait(Ask(EndToEnd::NewStub(reader).get(), &reply)), kDenied);
  EXPECT_EQ(SyncWait(Talk(StreamService::NewStub(reader).get(), &answers)),
            kDenied);
  EXPECT_EQ(answers, 3);
}

TEST_F(AuthorizationTest, AClientWithoutCredentialsIsNoPrincipal) {
  Serve(Allowing(R"("*", "")", R"("*")"));
  EXPECT_EQ(Echo(ChannelOf("reader")), absl::OkStatus());
  EXPECT_EQ(Echo(NewChannel()), kDenied);
}

TEST_F(AuthorizationTest, ARuleWithoutPrincipalsIsForEverybody) {
  Serve(Allowing("", R"("*")"));
  EXPECT_EQ(Echo(ChannelOf("reader")), absl::OkStatus());
  EXPECT_EQ(Echo(NewChannel()), absl::OkStatus());
}

TEST_F(AuthorizationTest, HeadersAreTheMetadataOfTheCall) {
  Serve(R"({"name": "p", "allow_rules": [{"name": "r", "request": {
      "headers": [{"key": "Tier", "values": ["gold", "sil*"]}]}}]})");
  const auto channel = NewChannel();
  EXPECT_EQ(Echo(channel), kDenied);
  EXPECT_EQ(Echo(channel, {{"TIER", "gold"}}), absl::OkStatus());
  EXPECT_EQ(Echo(channel, {{"tier", "silver"}, {"x", "y"}}), absl::OkStatus());
  EXPECT_EQ(Echo(channel, {{"tier", "gold"}, {"tier", "tin"}}), kDenied);
}

// Takes the value of "token" for the name of the caller.
class TokenProcessor final : public AuthMetadataProcessor {
 public:
  absl::Status Process(const Metadata& auth_metadata, AuthContext* context,
                       Metadata* consumed, Metadata* /*response*/) override {
    const auto token = auth_metadata.find("token");
    if (token == auth_metadata.end()) return absl::OkStatus();
    context->AddProperty("token_user", token->second);
    context->SetPeerIdentityPropertyName("token_user");
    consumed->emplace(*token);
    return absl::OkStatus();
  }
};

TEST_F(AuthorizationTest, APrincipalMayBeTheIdentityThatAProcessorHasFound) {
  Serve(R"({"name": "p",
      "deny_rules": [{"name": "tokens are consumed", "request": {
          "headers": [{"key": "token", "values": ["*"]}]}}],
      "allow_rules": [{"name": "ann", "source": {"principals": ["ann"]}}]})",
        [](ServerBuilder& builder) {
          builder.SetAuthMetadataProcessor(std::make_shared<TokenProcessor>());
        });
  EXPECT_EQ(Echo(NewChannel(), {{"token", "ann"}}), absl::OkStatus());
  EXPECT_EQ(Echo(ChannelOf("reader"), {{"token", "ann"}}), absl::OkStatus());
  EXPECT_EQ(Echo(NewChannel(), {{"token", "bob"}}), kDenied);
  EXPECT_EQ(Echo(ChannelOf("reader")), kDenied);
}

TEST_F(AuthorizationTest, HealthAndReflectionAreMethodsAsOthersAre) {
  HealthService health;
  ReflectionService reflection;
  Serve(Allowing("", R"("/grpc.health.v1.Health/Check")"),
        [&](ServerBuilder& builder) {
          builder.RegisterService(&health).RegisterService(&reflection);
        });
  ClientContext context;
  HealthCheckResponse response;
  const auto stub = Health::NewStub(NewChannel());
  EXPECT_EQ(stub->Check(&context, HealthCheckRequest(), &response),
            absl::OkStatus());
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish(), kDenied);
  const GenericStub by_name(NewChannel());
  const auto asked = by_name.BidiStreamingCall(
      &context, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
  ByteMessage answer;
  EXPECT_FALSE(asked->Read(&answer));
  EXPECT_EQ(asked->Finish(), kDenied);
  StopServer();
}

class AnyMethod final : public GenericService {
  absl::Status HandleUnary(ServerContext* /*context*/,
                           const ByteMessage* /*request*/,
                           ByteMessage* /*response*/) override {
    return absl::OkStatus();
  }
};

TEST_F(AuthorizationTest, MethodsOfAGenericServiceHaveTheNameThatIsCalled) {
  AnyMethod any;
  Serve(Allowing("", R"("/shop.Orders/Find")"),
        [&](ServerBuilder& builder) { builder.RegisterGenericService(&any); });
  const GenericStub stub(NewChannel());
  ClientContext context;
  ByteMessage response;
  EXPECT_EQ(
      stub.UnaryCall(&context, "shop.Orders/Find", ByteMessage(), &response),
      absl::OkStatus());
  EXPECT_EQ(
      stub.UnaryCall(&context, "shop.Orders/Erase", ByteMessage(), &response),
      kDenied);
  EXPECT_EQ(Echo(NewChannel()), kDenied);
  StopServer();
}

TEST_F(AuthorizationTest, ADeniedCallIsCountedAsOthersAre) {
  Serve(Allowing(R"("reader")", R"("*")"));
  EXPECT_EQ(Echo(NewChannel()), kDenied);
  const auto denied = [this] {
    uint64_t calls = 0;
    for (const MethodMetrics& method : server().GetMetrics().methods) {
      if (method.name != "verbena.end_to_end.EndToEnd/Echo") continue;
      calls +=
          method
              .ended[static_cast<size_t>(absl::StatusCode::kPermissionDenied)];
    }
    return calls;
  };
  // The server counts a call after it has sent the answer.
  const absl::Time deadline = base::Now() + testing_support::kTestTimeout;
  while (denied() < 1 && base::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(denied(), 1u);
}

TEST_F(AuthorizationTest, AFileThatChangesChangesWhoMayCall) {
  const std::string path = testing::TempDir() + "/authorization.json";
  const auto write = [&](const std::string& policy) {
    std::ofstream(path + ".new") << policy;
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  };
  write(Allowing(R"("writer")", R"("*")"));
  const auto provider = FileWatcherAuthorizationPolicyProvider::Create(
      path, absl::InfiniteDuration());
  ASSERT_EQ(provider.status(), absl::OkStatus());
  Serve(*provider);
  const auto writer = ChannelOf("writer");
  const auto reader = ChannelOf("reader");
  EXPECT_EQ(Echo(writer), absl::OkStatus());
  EXPECT_EQ(Echo(reader), kDenied);
  ClientContext context;
  const auto chat = StreamService::NewStub(writer)->Chat(&context);
  EXPECT_TRUE(Echoes(*chat, NewItem(1)));

  write(Allowing(R"("reader")", R"("*")"));
  EXPECT_EQ((*provider)->Reload(), absl::OkStatus());
  EXPECT_EQ(Echo(writer), kDenied);
  EXPECT_EQ(Echo(reader), absl::OkStatus());
  // A policy is asked when a call begins.
  EXPECT_TRUE(Echoes(*chat, NewItem(2)));
  chat->WritesDone();
  EXPECT_EQ(chat->Finish(), absl::OkStatus());

  write("broken");
  EXPECT_FALSE((*provider)->Reload().ok());
  EXPECT_EQ(Echo(writer), kDenied);
  EXPECT_EQ(Echo(reader), absl::OkStatus());
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

// Decides without a policy.
class FullTill final : public AuthorizationPolicyProviderInterface {
 public:
  absl::Status Authorize(const ServerContext& context) override {
    asked_ = context.method();
    return absl::ResourceExhaustedError("the till is full");
  }
  const std::string& asked() const { return asked_; }

 private:
  std::string asked_;
};

TEST_F(AuthorizationTest, AProviderOfOnesOwnDecidesAsItLikes) {
  const auto provider = std::make_shared<FullTill>();
  Serve(provider);
  EXPECT_EQ(Echo(NewChannel()),
            absl::ResourceExhaustedError("the till is full"));
  StopServer();
  EXPECT_EQ(provider->asked(), "verbena.end_to_end.EndToEnd/Echo");
}

}  // namespace
}  // namespace verbena::end_to_end
