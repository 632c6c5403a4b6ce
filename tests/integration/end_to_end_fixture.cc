#include "tests/integration/end_to_end_fixture.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_tls.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {

void Countdown::Done() {
  const base::MutexLock lock(mutex_);
  if (--count_ == 0) changed_.NotifyAll();
}

void Countdown::Wait() {
  const absl::Time deadline = base::Now() + absl::Minutes(5);
  const base::MutexLock lock(mutex_);
  while (count_ > 0 && changed_.WaitUntil(mutex_, deadline)) {
  }
  EXPECT_LE(count_, 0) << "callbacks are missing";
}

std::string EndToEndTest::Address(int port) {
  return absl::StrCat(testing_support::TestAddress(), ":", port);
}

void EndToEndTest::StartServer(
    const std::function<void(ServerBuilder&)>& change, int port) {
  ServerBuilder builder;
  builder
      .AddListeningPort(Address(port), testing_support::TestServerCredentials(),
                        &port_)
      .RegisterService(&service_)
      .RegisterService(&inline_service_)
      .RegisterService(&streams_)
      .SetWorkerThreads(16);
  if (change) change(builder);
  absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
  ASSERT_EQ(server.status(), absl::OkStatus());
  server_ = *std::move(server);
  target_ = Address(port_);
}

void EndToEndTest::UseServer() {
  const char* external = std::getenv("VERBENA_TEST_SERVER");
  if (external == nullptr) return StartServer();
  target_ = external;
}

std::shared_ptr<Channel> EndToEndTest::NewChannel(
    const ChannelOptions& options) const {
  return CreateChannel(target_, testing_support::TestChannelCredentials(),
                       options);
}

std::unique_ptr<EndToEndTest::Blocked> EndToEndTest::Block(
    EndToEnd::Stub* stub, const std::string& key, absl::Duration timeout) {
  auto blocked = std::make_unique<Blocked>();
  blocked->context.set_timeout(timeout);
  blocked->thread = std::thread([stub, key, raw = blocked.get()] {
    raw->status = CallBlock(stub, &raw->context, key);
  });
  return blocked;
}

void EchoCall::Start(EndToEnd::Stub* stub) {
  stub->async()->Echo(&context, &request, &reply, [this](absl::Status ended) {
    status = std::move(ended);
    done.Done();
  });
}

AsyncEcho::AsyncEcho(EndToEnd::Stub* stub, size_t bytes, size_t seed)
    : stub_(stub) {
  request_.set_payload(Pattern(bytes, seed));
}

void AsyncEcho::Start(std::function<void()> done) {
  stub_->async()->Echo(
      &context_, &request_, &reply_,
      [this, done = std::move(done)](const absl::Status& status) {
        if (!status.ok()) {
          problem_ = status.ToString();
        } else if (reply_.payload() != request_.payload()) {
          problem_ = "another payload";
        } else {
          problem_ = "";
        }
        done();
      });
}

std::string EndToEndServerPath() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  return self.substr(0, self.rfind('/') + 1) + "e2e_server";
}

absl::Status CallBlock(EndToEnd::Stub* stub, ClientContext* context,
                       const std::string& key) {
  Key request;
  Nothing reply;
  request.set_key(key);
  return stub->Block(context, request, &reply);
}

}  // namespace verbena::end_to_end
