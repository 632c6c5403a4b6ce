// A service of three servers, a registry that lists them, and a channel.

#ifndef VERBENA_TESTS_INTEGRATION_SERVICES_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_SERVICES_FIXTURE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

// A registry that the test fills.
class Registry final : public ResolverFactory {
 public:
  absl::string_view scheme() const override { return "registry"; }

  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override {
    const base::MutexLock lock(mutex_);
    if (!refusal_.ok()) {
      ++refusals_;
      changed_.NotifyAll();
      return refusal_;
    }
    ++open_;
    path_ = target.path;
    on_result_ = std::move(on_result);
    if (last_.has_value()) on_result_(*last_);
    changed_.NotifyAll();
    return std::make_unique<Follower>(this);
  }

  void Answer(absl::StatusOr<Resolved> answer) {
    const base::MutexLock lock(mutex_);
    last_ = std::move(answer);
    if (on_result_) on_result_(*last_);
  }
  void Answer(const std::vector<std::string>& addresses,
              const std::string& policy = "round_robin") {
    Resolved resolved;
    for (const std::string& address : addresses) {
      resolved.servers.push_back({.address = address});
    }
    resolved.service_config =
        absl::StrCat(R"({"loadBalancingConfig": [{")", policy, R"(": {}}]})");
    Answer(std::move(resolved));
  }
  void Refuse(absl::Status status) {
    const base::MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }

  void AwaitRefusals(int count) {
    const base::MutexLock lock(mutex_);
    while (refusals_ < count) changed_.Wait(mutex_);
  }
  void AwaitOpen(int count) {
    const base::MutexLock lock(mutex_);
    while (open_ != count) changed_.Wait(mutex_);
  }
  std::string path() {
    const base::MutexLock lock(mutex_);
    return path_;
  }

 private:
  class Follower final : public Resolver {
   public:
    explicit Follower(Registry* registry) : registry_(*registry) {}
    ~Follower() override {
      const base::MutexLock lock(registry_.mutex_);
      --registry_.open_;
      registry_.on_result_ = nullptr;
      registry_.changed_.NotifyAll();
    }
    void ResolveNow() override {}

   private:
    Registry& registry_;
  };

  base::Mutex mutex_;
  base::CondVar changed_;
  Resolver::OnResult on_result_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<Resolved>> last_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string path_ ABSL_GUARDED_BY(mutex_);
};

class ServicesTest : public ::testing::Test {
 protected:
  // A server of the service.
  struct Backend {
    EndToEndService service;
    std::unique_ptr<Server> server;
    std::string address;
    int port = 0;
  };

  explicit ServicesTest(int count = 3) {
    for (int i = 0; i < count; ++i) Start(AddBackend());
    options_.resolvers.push_back(registry_);
    options_.initial_backoff = absl::Milliseconds(10);
  }

  Backend* AddBackend() {
    backends_.push_back(std::make_unique<Backend>());
    return backends_.back().get();
  }
  void Start(Backend* backend) {
    ServerBuilder builder;
    builder.AddListeningPort(
        absl::StrCat(testing_support::TestAddress(), ":", backend->port),
        &backend->port);
    builder.RegisterService(&backend->service);
    auto server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    backend->server = *std::move(server);
    backend->address =
        absl::StrCat(testing_support::TestAddress(), ":", backend->port);
  }

  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const auto& backend : backends_) addresses.push_back(backend->address);
    return addresses;
  }
  std::unique_ptr<EndToEnd::Stub> NewStub(
      const std::string& target = "registry:///orders") {
    channel_ = CreateChannel(target, options_);
    return EndToEnd::NewStub(channel_);
  }

  // Makes a call, and returns the address of the server that has answered.
  std::string Call(EndToEnd::Stub& stub, const std::string& user = "") {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    context.set_wait_for_ready(true);
    if (!user.empty()) context.AddMetadata("user", user);
    EchoRequest request;
    EchoReply reply;
    const absl::Status status = stub.Echo(&context, request, &reply);
    EXPECT_EQ(status, absl::OkStatus());
    return context.peer();
  }
  absl::Status CallAtOnce(EndToEnd::Stub& stub) {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    EchoRequest request;
    EchoReply reply;
    return stub.Echo(&context, request, &reply);
  }
  // Calls until all servers are connected.
  void AwaitConnected(EndToEnd::Stub& stub, size_t count) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    size_t connected = 0;
    while (connected != count) {
      ASSERT_LT(absl::Now(), deadline) << connected << " servers connected";
      Call(stub);
      connected = 0;
      for (const auto& server : channel_->GetMetrics().servers) {
        connected += server.connected ? 1 : 0;
      }
    }
  }
  // Waits until a server runs the call with this key.
  void AwaitBlocked(const std::string& key) {
    for (;;) {
      for (const auto& backend : backends_) {
        if (backend->service.blocks(key) > 0) return;
      }
      std::this_thread::yield();
    }
  }
  std::map<std::string, int> Spread(EndToEnd::Stub& stub, int calls) {
    std::map<std::string, int> spread;
    for (int i = 0; i < calls; ++i) ++spread[Call(stub)];
    return spread;
  }

  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  std::vector<std::unique_ptr<Backend>> backends_;
  ChannelOptions options_;
  std::shared_ptr<Channel> channel_;
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_SERVICES_FIXTURE_H_
