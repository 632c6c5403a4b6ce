// The health service, as a client finds it.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/services/health_service.h"
#include "tests/integration/end_to_end_fixture.h"

namespace verbena::end_to_end {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

class HealthTest : public EndToEndTest {
 protected:
  HealthTest() {
    StartServer([this](ServerBuilder& builder) {
      builder.RegisterService(&health_).SetMaxWorkerThreads(16);
    });
    stub_ = Health::NewStub(NewChannel());
    context_.set_timeout(absl::Minutes(2));
  }
  ~HealthTest() override { StopServer(); }

  std::unique_ptr<ClientReader<HealthCheckResponse>> Watch(
      ClientContext* context, const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return stub_->Watch(context, request);
  }
  static std::string Next(ClientReader<HealthCheckResponse>& reader) {
    HealthCheckResponse response;
    return reader.Read(&response)
               ? HealthCheckResponse::ServingStatus_Name(response.status())
               : "no more";
  }

  HealthService health_;
  std::unique_ptr<Health::Stub> stub_;
  ClientContext context_;
};

TEST_F(HealthTest, AClientChecksAService) {
  HealthCheckRequest request;
  HealthCheckResponse response;
  ASSERT_EQ(stub_->Check(&context_, request, &response), absl::OkStatus());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  request.set_service("some.Service");
  EXPECT_TRUE(absl::IsNotFound(stub_->Check(&context_, request, &response)));
}

TEST_F(HealthTest, WhoWatchesIsToldAtOnceAndOfEachChange) {
  const auto reader = Watch(&context_, "some.Service");
  ASSERT_EQ(Next(*reader), "SERVICE_UNKNOWN");
  health_.SetServingStatus("some.Service", true);
  ASSERT_EQ(Next(*reader), "SERVING");
  // These change nothing for it.
  health_.SetServingStatus("some.Service", true);
  health_.SetServingStatus("other.Service", false);
  health_.SetServingStatus("some.Service", false);
  ASSERT_EQ(Next(*reader), "NOT_SERVING");
  context_.TryCancel();
  EXPECT_EQ(Next(*reader), "no more");
  EXPECT_TRUE(absl::IsCancelled(reader->Finish()));
}

TEST_F(HealthTest, NamesThatAreTooLongAreRefused) {
  HealthCheckRequest request;
  HealthCheckResponse response;
  for (const size_t bytes : {size_t{1024}, size_t{1025}, size_t{1} << 20}) {
    request.set_service(std::string(bytes, 's'));
    ClientContext check;
    const absl::Status checked = stub_->Check(&check, request, &response);
    ClientContext watch;
    const auto reader = Watch(&watch, request.service());
    if (bytes == 1024) {
      EXPECT_TRUE(absl::IsNotFound(checked)) << checked;
      EXPECT_EQ(Next(*reader), "SERVICE_UNKNOWN");
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(checked)) << checked;
      EXPECT_EQ(Next(*reader), "no more");
    }
    watch.TryCancel();  // Does nothing if the call has ended.
    EXPECT_EQ(reader->Finish().code(),
              bytes == 1024 ? absl::StatusCode::kCancelled : checked.code());
  }
}

TEST_F(HealthTest, AHundredServicesAreListedAndMoreAreNot) {
  for (int i = 1; i < 100; ++i) {
    health_.SetServingStatus(absl::StrCat("s.S", i), i % 2 == 0);
  }
  HealthListResponse response;
  ASSERT_EQ(stub_->List(&context_, HealthListRequest(), &response),
            absl::OkStatus());
  EXPECT_EQ(response.statuses_size(), 100);
  EXPECT_EQ(response.statuses().at("").status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(response.statuses().at("s.S7").status(),
            HealthCheckResponse::NOT_SERVING);
  health_.SetServingStatus("one.More", true);
  EXPECT_TRUE(absl::IsResourceExhausted(
      stub_->List(&context_, HealthListRequest(), &response)));
}

// The server has sixteen workers, and leaves them alone.
TEST_F(HealthTest, ManyWatchAtOnceAndTakeNoThread) {
  constexpr int kWatchers = 200;
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::vector<std::unique_ptr<ClientReader<HealthCheckResponse>>> readers;
  for (int i = 0; i < kWatchers; ++i) {
    contexts.push_back(std::make_unique<ClientContext>());
    contexts.back()->set_timeout(absl::Minutes(2));
    readers.push_back(Watch(contexts.back().get(), i % 2 == 0 ? "" : "odd"));
  }
  for (int i = 0; i < kWatchers; ++i) {
    ASSERT_EQ(Next(*readers[i]), i % 2 == 0 ? "SERVING" : "SERVICE_UNKNOWN");
  }
  health_.SetServingStatus("odd", true);
  health_.SetServingStatus("", false);
  for (int i = 0; i < kWatchers; ++i) {
    ASSERT_EQ(Next(*readers[i]), i % 2 == 0 ? "NOT_SERVING" : "SERVING");
  }
  // Some watchers go. The others are still told of all changes.
  for (int i = 0; i < kWatchers / 2; ++i) contexts[i]->TryCancel();
  for (int i = 0; i < kWatchers / 2; ++i) {
    EXPECT_TRUE(absl::IsCancelled(readers[i]->Finish()));
  }
  health_.Shutdown();
  for (int i = kWatchers / 2; i < kWatchers; ++i) {
    if (i % 2 != 0) {
      ASSERT_EQ(Next(*readers[i]), "NOT_SERVING");
    }
    ASSERT_EQ(Next(*readers[i]), "no more");
    EXPECT_TRUE(absl::IsUnavailable(readers[i]->Finish()));
  }
  server().Shutdown();
}

// There are more changes than a stream holds for a client that does not read.
TEST_F(HealthTest, OfChangesBetweenWhichNobodyReadsTheLastIsNotLost) {
  const auto reader = Watch(&context_, "");
  ASSERT_EQ(Next(*reader), "SERVING");
  for (int i = 0; i < 50000; ++i) health_.SetServingStatus(i % 2 != 0);
  std::string last = "SERVING";
  std::thread more([this] {
    for (int i = 0; i < 1000; ++i) health_.SetServingStatus(i % 2 != 0);
    health_.Shutdown();
  });
  for (std::string next; (next = Next(*reader)) != "no more"; last = next) {
    EXPECT_NE(next, last);
  }
  more.join();
  EXPECT_EQ(last, "NOT_SERVING");
  EXPECT_TRUE(absl::IsUnavailable(reader->Finish()));
}

TEST_F(HealthTest, WatchersComeAndGoWhileEverythingChanges) {
  std::atomic<bool> stop{false};
  std::thread changes([this, &stop] {
    for (int i = 0; !stop; ++i) {
      health_.SetServingStatus("some.Service", i % 2 != 0);
    }
  });
  for (int i = 0; i < 300; ++i) {
    ClientContext context;
    const auto reader = Watch(&context, "some.Service");
    EXPECT_NE(Next(*reader), "no more");
    context.TryCancel();
    EXPECT_TRUE(absl::IsCancelled(reader->Finish()));
  }
  stop = true;
  changes.join();
  // Shutdown() would wait for calls that still watch.
  server().Shutdown();
}

TEST_F(HealthTest, ShutdownEndsTheCallsThatWatchAndThenTheServer) {
  const auto reader = Watch(&context_, "");
  ASSERT_EQ(Next(*reader), "SERVING");
  health_.Shutdown();
  EXPECT_EQ(Next(*reader), "NOT_SERVING");
  EXPECT_EQ(Next(*reader), "no more");
  EXPECT_EQ(reader->Finish(),
            absl::UnavailableError("the server is shutting down"));
  server().Shutdown();
}

}  // namespace
}  // namespace verbena::end_to_end
