#include "rpc/services/admin/admin_page.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"
#include "grpc/health/v1/health.verbena.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/services/admin/admin_snapshot.pb.h"
#include "rpc/services/admin/http_get.h"
#include "rpc/services/health_service.h"

namespace verbena {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using internal::Get;
using internal::HttpAnswer;

class AdminPageTest : public testing::Test {
 protected:
  void Start(AdminPageOptions options = {}) {
    ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", &port_);
    builder.SetDevice("soft");
    builder.RegisterService(&health_);
    options.selected_port = &page_port_;
    AddAdminPage(&builder, std::move(options));
    auto server = builder.BuildAndStart();
    ASSERT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    ChannelOptions channel_options;
    channel_options.device = "soft";
    stub_ = Health::NewStub(
        CreateChannel(absl::StrCat("127.0.0.1:", port_), channel_options));
  }

  absl::Status Check(const std::string& service) {
    ClientContext context;
    context.set_timeout(absl::Minutes(2));
    HealthCheckRequest request;
    HealthCheckResponse response;
    request.set_service(service);
    return stub_->Check(&context, request, &response);
  }

  admin::AdminSnapshot Snapshot() const {
    const HttpAnswer answer = Get(page_port_, "/status.json");
    EXPECT_EQ(answer.status, 200);
    admin::AdminSnapshot snapshot;
    const auto status =
        google::protobuf::util::JsonStringToMessage(answer.body, &snapshot);
    EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << answer.body;
    return snapshot;
  }

  HealthService health_;
  int port_ = 0;
  int page_port_ = 0;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(AdminPageTest, IsAPageThatRunsNothingButItsOwn) {
  Start();
  const HttpAnswer answer = Get(page_port_, "/");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_NE(answer.policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(answer.policy.find("script-src 'sha256-"), std::string::npos);
  EXPECT_EQ(answer.policy.find("unsafe"), std::string::npos);
  for (const char* outside : {"src=", "@import", "url("}) {
    EXPECT_EQ(answer.body.find(outside), std::string::npos) << outside;
  }
}

TEST_F(AdminPageTest, ShowsCallsAndConnections) {
  Start();
  ASSERT_EQ(Check(""), absl::OkStatus());
  ASSERT_EQ(Check("nobody").code(), absl::StatusCode::kNotFound);
  const admin::AdminSnapshot snapshot = Snapshot();
  ASSERT_EQ(snapshot.listening_size(), 1);
  EXPECT_EQ(snapshot.listening(0).address(), absl::StrCat("127.0.0.1:", port_));
  EXPECT_EQ(snapshot.listening(0).device(), "soft");
  ASSERT_EQ(snapshot.connections_size(), 1);
  EXPECT_EQ(snapshot.connections(0).state(), "open");
  EXPECT_EQ(snapshot.connections(0).device(), "soft");
  EXPECT_GT(snapshot.connections(0).receive_window(), 0);
  bool found = false;
  for (const auto& method : snapshot.methods()) {
    if (method.name() != "grpc.health.v1.Health/Check") continue;
    found = true;
    EXPECT_EQ(method.ended().at("OK"), 1);
    EXPECT_EQ(method.ended().at("NOT_FOUND"), 1);
  }
  EXPECT_TRUE(found) << snapshot.DebugString();
}

TEST_F(AdminPageTest, ShowsAnOpenStreamAndLaterHowLongItTook) {
  Start();
  ClientContext context;
  context.set_timeout(absl::Minutes(2));
  auto reader = stub_->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  admin::AdminSnapshot snapshot = Snapshot();
  ASSERT_EQ(snapshot.open_calls_size(), 1);
  EXPECT_EQ(snapshot.open_calls(0).method(), "grpc.health.v1.Health/Watch");
  EXPECT_EQ(snapshot.open_calls(0).state(), "at its handler");
  EXPECT_EQ(snapshot.open_calls(0).peer(), snapshot.connections(0).peer());
  EXPECT_EQ(snapshot.connections(0).open_calls(), 1);
  EXPECT_EQ(snapshot.limits(1).used(), 1);
  // From a millisecond on it is slow.
  while (Snapshot().open_calls(0).age_s() < 2e-3) {
  }
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().code(), absl::StatusCode::kCancelled);
  do {
    snapshot = Snapshot();
  } while (snapshot.open_calls_size() > 0);
  ASSERT_EQ(snapshot.slow_calls_size(), 1) << snapshot.DebugString();
  EXPECT_EQ(snapshot.slow_calls(0).method(), "grpc.health.v1.Health/Watch");
  EXPECT_GE(snapshot.slow_calls(0).latency_s(), 2e-3);
}

TEST_F(AdminPageTest, ShowsTheLog) {
  AdminPageOptions options;
  options.log = std::make_shared<LogTail>();
  SetLogSink(options.log->Sink(), LogSeverity::kInfo);
  Start(options);
  ASSERT_EQ(Check(""), absl::OkStatus());
  const admin::AdminSnapshot snapshot = Snapshot();
  SetLogSink(nullptr);
  EXPECT_TRUE(snapshot.log_is_kept());
  EXPECT_GT(snapshot.log_size(), 0);
}

TEST_F(AdminPageTest, ShowsTheChannelsThatItIsGiven) {
  AdminPageOptions options;
  options.channels = std::make_shared<AdminChannels>();
  Start(options);
  EXPECT_EQ(Snapshot().channels_size(), 0);
  ChannelOptions channel_options;
  channel_options.device = "soft";
  const std::string target = absl::StrCat("127.0.0.1:", port_);
  const auto channel = CreateChannel(target, channel_options);
  options.channels->AddChannel(channel, "to myself");
  admin::AdminSnapshot snapshot = Snapshot();
  ASSERT_EQ(snapshot.channels_size(), 1);
  EXPECT_EQ(snapshot.channels(0).state(), "IDLE");
  ASSERT_TRUE(channel->WaitForConnected(absl::Now() + absl::Minutes(2)));
  snapshot = Snapshot();
  ASSERT_EQ(snapshot.channels_size(), 1);
  EXPECT_EQ(snapshot.channel_count(), 1);
  EXPECT_EQ(snapshot.channels(0).name(), "to myself");
  EXPECT_EQ(snapshot.channels(0).target(), target);
  EXPECT_EQ(snapshot.channels(0).state(), "READY");
  EXPECT_EQ(snapshot.channels(0).device(), "soft");
  EXPECT_FALSE(snapshot.channels(0).fabric_reason().empty());
  EXPECT_EQ(snapshot.channels(0).connects(), 1);
  ASSERT_EQ(snapshot.channels(0).servers_size(), 1);
  EXPECT_EQ(snapshot.channels(0).servers(0).address(), target);
  options.channels->RemoveChannel(channel);
  EXPECT_EQ(channel.use_count(), 1);
  EXPECT_EQ(Snapshot().channels_size(), 0);
}

TEST_F(AdminPageTest, IsThereUntilTheServerIsGone) {
  Start();
  ASSERT_EQ(Check(""), absl::OkStatus());
  server_->Shutdown();
  const admin::AdminSnapshot snapshot = Snapshot();
  EXPECT_TRUE(snapshot.incomplete());
  EXPECT_EQ(snapshot.connections_size(), 0);
  server_.reset();
  EXPECT_EQ(Get(page_port_, "/").status, 0);
}

TEST_F(AdminPageTest, AServerWhosePageCannotListenDoesNotStart) {
  Start();
  ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0");
  builder.SetDevice("soft");
  AdminPageOptions options;
  options.address = absl::StrCat("127.0.0.1:", page_port_);
  AddAdminPage(&builder, options);
  const auto server = builder.BuildAndStart();
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena
