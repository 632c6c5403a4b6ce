#include "rpc/server_builder.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/empty.pb.h"
#include "gtest/gtest.h"
#include "rpc/generic_service.h"
#include "rpc/server.h"
#include "rpc/service.h"
#include "rpc/support/methods.h"

namespace verbena {
namespace {

using google::protobuf::Empty;
using testing::HasSubstr;

class OneMethod : public Service {
 public:
  OneMethod() : Service("test.One") {
    AddMethod(internal::NewTypedMethod<RpcType::kUnary, Empty, Empty>(
        "test.One/Only",
        [](ServerContext*, const Empty*, Empty*) { return absl::OkStatus(); }));
  }
};

class ServerBuilderTest : public testing::Test {
 protected:
  ServerBuilderTest() { builder_.AddListeningPort("127.0.0.1:0"); }

  void ExpectRefused(absl::StatusCode code, const std::string& word) {
    const absl::Status status = builder_.BuildAndStart().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }

  ServerBuilder builder_;
};

TEST_F(ServerBuilderTest, AServerNeedsAnAddress) {
  EXPECT_EQ(ServerBuilder().BuildAndStart().status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerBuilderTest, AnAddressThatCannotBeReadIsRefused) {
  builder_.AddListeningPort("no port here");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "no port here");
}

TEST_F(ServerBuilderTest, ANullFactoryOfInterceptorsIsRefused) {
  builder_.AddInterceptor(nullptr);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "interceptors");
}

TEST_F(ServerBuilderTest, NullCredentialsAreRefused) {
  builder_.AddListeningPort("127.0.0.1:0",
                            std::shared_ptr<ServerCredentials>());
  ExpectRefused(absl::StatusCode::kInvalidArgument, "credentials");
}

TEST_F(ServerBuilderTest, ANullAuthorizationPolicyProviderIsRefused) {
  builder_.SetAuthorizationPolicyProvider(nullptr);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "authorization policy");
}

TEST_F(ServerBuilderTest, AServerHasOneGenericService) {
  GenericService first;
  GenericService second;
  builder_.RegisterGenericService(&first).RegisterGenericService(&second);
  ExpectRefused(absl::StatusCode::kAlreadyExists, "2 generic services");
}

TEST_F(ServerBuilderTest, AGenericServiceThatIsNullIsRefused) {
  builder_.RegisterGenericService(nullptr);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "generic service is null");
}

TEST_F(ServerBuilderTest, AServiceIsToldOfAllThatTheServerHas) {
  class Curious : public Service {
   public:
    Curious() : Service("test.Curious") {
      set_on_services(
          [this](const std::vector<std::string>& names) { names_ = names; });
    }
    const std::vector<std::string>& names() const { return names_; }

   private:
    std::vector<std::string> names_;
  };
  Curious curious;
  OneMethod other;
  builder_.RegisterService(&curious).RegisterService(&other);
  ASSERT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  EXPECT_EQ(curious.names(),
            (std::vector<std::string>{"test.Curious", "test.One"}));
}

TEST_F(ServerBuilderTest, NegativeThreadsAreRefused) {
  builder_.SetWorkerThreads(-1);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "ServerBuilder::SetWorkerThreads is -1");
}

TEST_F(ServerBuilderTest, FewerWorkersAtMostThanAreKeptAreRefused) {
  builder_.SetWorkerThreads(8).SetMaxWorkerThreads(7);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "is 7, must be from 8");
}

TEST_F(ServerBuilderTest, MoreWorkersThanMakeSenseAreRefused) {
  builder_.SetMaxWorkerThreads(1025);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "to 1024");
}

TEST_F(ServerBuilderTest, OneWorkerIsEnough) {
  builder_.SetDevice("soft").SetMaxWorkerThreads(1);
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
}

TEST_F(ServerBuilderTest, NoPollersAreRefused) {
  builder_.SetPollers(0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetPollers is 0");
}

TEST_F(ServerBuilderTest, AnEmptyWorkerQueueIsRefused) {
  builder_.SetWorkerQueueLimit(0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetWorkerQueueLimit is 0");
}

TEST_F(ServerBuilderTest, SizesOverTheLimitAreRefused) {
  builder_.SetMaxReceiveMessageSize(int64_t{1} << 31);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetMaxReceiveMessageSize");
}

TEST_F(ServerBuilderTest, MinusOneIsTheLongestMessageThatThereCanBe) {
  builder_.SetDevice("soft").SetMaxReceiveMessageSize(-1).SetMaxSendMessageSize(
      -1);
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
}

TEST_F(ServerBuilderTest, MemoryThatCannotHoldTheLargestMessageIsRefused) {
  builder_.SetDevice("soft").SetMaxBulkBytes((int64_t{65} << 20) - 1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetMaxBulkBytes");
}

TEST_F(ServerBuilderTest, MetadataMayHave65535Bytes) {
  builder_.SetDevice("soft");
  for (const int64_t bytes : {0, 65535}) {
    builder_.SetMaxMetadataSize(bytes);
    EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  }
  for (const int64_t bytes : {-1, 65536}) {
    builder_.SetMaxMetadataSize(bytes);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "SetMaxMetadataSize");
  }
}

TEST_F(ServerBuilderTest, AStatusMessageMayHave65535Bytes) {
  builder_.SetDevice("soft");
  for (const int64_t bytes : {0, 65535}) {
    builder_.SetMaxStatusMessageSize(bytes);
    EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  }
  for (const int64_t bytes : {-1, 65536}) {
    builder_.SetMaxStatusMessageSize(bytes);
    ExpectRefused(absl::StatusCode::kInvalidArgument,
                  "SetMaxStatusMessageSize");
  }
}

TEST_F(ServerBuilderTest, AConnectionMayHaveOneCallTo16384) {
  builder_.SetDevice("soft");
  for (const int calls : {1, 16384}) {
    builder_.SetMaxConcurrentCallsPerConnection(calls);
    EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  }
  for (const int calls : {0, 16385}) {
    builder_.SetMaxConcurrentCallsPerConnection(calls);
    ExpectRefused(absl::StatusCode::kInvalidArgument,
                  "SetMaxConcurrentCallsPerConnection");
  }
}

TEST_F(ServerBuilderTest, ALimitOfCallsOfTheServerIsNotNegative) {
  builder_.SetDevice("soft").SetMaxConcurrentCalls(INT64_MAX);
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  builder_.SetMaxConcurrentCalls(-1);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "SetMaxConcurrentCalls is -1");
}

TEST_F(ServerBuilderTest, LimitsOfStreamsAreNotNegative) {
  builder_.SetDevice("soft").SetMaxConcurrentStreams(INT64_MAX);
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  builder_.SetMaxConcurrentStreams(-1);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "SetMaxConcurrentStreams is -1, must be from 0");
  builder_.SetMaxConcurrentStreams(0);
  for (const int streams : {0, 16384}) {
    builder_.SetMaxConcurrentStreamsPerConnection(streams);
    EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  }
  for (const int streams : {-1, 16385}) {
    builder_.SetMaxConcurrentStreamsPerConnection(streams);
    ExpectRefused(absl::StatusCode::kInvalidArgument,
                  "SetMaxConcurrentStreamsPerConnection");
  }
}

TEST_F(ServerBuilderTest, ANegativeSpinBudgetIsRefused) {
  builder_.SetSpinBudget(-absl::Microseconds(1));
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "ServerBuilder::SetSpinBudget is -1us");
}

TEST_F(ServerBuilderTest, ANegativeFloorOfMemoryIsRefused) {
  builder_.SetMemoryFloorBytes(-1);
  ExpectRefused(absl::StatusCode::kInvalidArgument,
                "SetMemoryFloorBytes is -1");
}

TEST_F(ServerBuilderTest, MemoryThatIsIdleAtOnceIsRefused) {
  builder_.SetMemoryIdleTime(absl::ZeroDuration());
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetMemoryIdleTime");
}

TEST_F(ServerBuilderTest, MemoryMayBeKeptForEverOrNotAtAll) {
  builder_.SetDevice("soft").SetMemoryFloorBytes(0).SetMemoryIdleTime(
      absl::Nanoseconds(1));
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  builder_.SetMemoryFloorBytes(INT64_MAX).SetMemoryIdleTime(
      absl::InfiniteDuration());
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
}

TEST_F(ServerBuilderTest, ClientsThatMayNotStallAtAllAreRefused) {
  builder_.SetStallTimeout(absl::ZeroDuration());
  ExpectRefused(absl::StatusCode::kInvalidArgument, "SetStallTimeout is 0");
}

TEST_F(ServerBuilderTest, ClientsMayStallForAMomentOrForEver) {
  builder_.SetDevice("soft").SetStallTimeout(absl::Nanoseconds(1));
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
  builder_.SetStallTimeout(absl::InfiniteDuration());
  EXPECT_EQ(builder_.BuildAndStart().status(), absl::OkStatus());
}

TEST_F(ServerBuilderTest, ANullServiceIsRefused) {
  builder_.RegisterService(nullptr);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "null");
}

TEST_F(ServerBuilderTest, TwoServicesOfOneNameAreRefused) {
  OneMethod first, second;
  builder_.RegisterService(&first).RegisterService(&second);
  ExpectRefused(absl::StatusCode::kAlreadyExists, "test.One/Only");
}

TEST_F(ServerBuilderTest, TellsThePortThatItChoseForEachAddress) {
  int first = -1;
  int second = -1;
  OneMethod service;
  absl::StatusOr<std::unique_ptr<Server>> server =
      ServerBuilder()
          .SetDevice("soft")
          .AddListeningPort("127.0.0.1:0", &first)
          .AddListeningPort("127.0.0.1:0", &second)
          .RegisterService(&service)
          .BuildAndStart();
  ASSERT_EQ(server.status(), absl::OkStatus());
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_NE(first, second);
  ASSERT_EQ((*server)->listening().size(), 2u);
  EXPECT_EQ((*server)->listening()[0].port, first);
  EXPECT_EQ((*server)->listening()[1].port, second);
  EXPECT_EQ((*server)->listening()[0].device, "soft");
}

}  // namespace
}  // namespace verbena
