// Handlers that block where nobody expects it: they hold nobody else up.

#include <atomic>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

// Echo does what its payload says; most payloads say nothing.
class Obedient final : public EndToEnd::Service {
 public:
  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    if (request->payload() == "wait") Wait(context);
    if (request->payload() == "open") Open();
    if (request->payload() == "throw") throw std::runtime_error("secret");
    if (request->payload() == "recurse" && request->reply_bytes() > 0) {
      EchoRequest inner = *request;
      inner.set_reply_bytes(request->reply_bytes() - 1);
      ClientContext client;
      EchoReply ignored;
      return stub_->Echo(&client, inner, &ignored);
    }
    reply->set_payload(request->payload());
    const base::MutexLock lock(mutex_);
    echo_thread_ = std::this_thread::get_id();
    return absl::OkStatus();
  }

  absl::Status Block(ServerContext* context, const Key* /*request*/,
                     Nothing* /*reply*/) override {
    Wait(context);
    return absl::OkStatus();
  }

  void Open() {
    const base::MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Close() {
    const base::MutexLock lock(mutex_);
    open_ = false;
    waiting_ = 0;
  }
  // Waits until `count` handlers have waited since Close().
  void AwaitWaiting(int count) {
    const base::MutexLock lock(mutex_);
    while (waiting_ < count) changed_.Wait(mutex_);
  }
  // The thread of the handler that began to wait last.
  std::thread::id waiting_thread() {
    const base::MutexLock lock(mutex_);
    return waiting_thread_;
  }
  // The thread of the last Echo that returned a reply.
  std::thread::id echo_thread() {
    const base::MutexLock lock(mutex_);
    return echo_thread_;
  }
  // Sets the stub that "recurse" calls.
  void set_stub(EndToEnd::Stub* stub) { stub_ = stub; }

 private:
  void Wait(ServerContext* context) {
    const base::MutexLock lock(mutex_);
    ++waiting_;
    waiting_thread_ = std::this_thread::get_id();
    changed_.NotifyAll();
    while (!open_ && !context->IsCancelled()) {
      // Polls IsCancelled() rather than using stop_token().
      changed_.WaitUntil(mutex_, base::Now() + absl::Milliseconds(2));
    }
  }

  EndToEnd::Stub* stub_ = nullptr;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread::id waiting_thread_ ABSL_GUARDED_BY(mutex_);
  std::thread::id echo_thread_ ABSL_GUARDED_BY(mutex_);
};

// Tells which thread polls.
class PollerTeller final : public Inline::Service {
 public:
  PollerTeller() { set_handler_mode(HandlerMode::kInline); }
  absl::Status Echo(ServerContext* /*context*/, const EchoRequest* request,
                    EchoReply* /*reply*/) override {
    if (request->payload() == "throw") throw 17;
    thread_ = std::this_thread::get_id();
    return absl::OkStatus();
  }
  std::thread::id thread() const { return thread_; }

 private:
  std::atomic<std::thread::id> thread_;
};

class BlockingHandlersTest : public EndToEndTest {
 protected:
  // All options are the default ones.
  void SetUp() override {
    ServerBuilder builder;
    builder.AddListeningPort(Address(0), &port_)
        .RegisterService(&service_)
        .RegisterService(&teller_);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    ASSERT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    channel_ = CreateChannel(Address(port_));
    stub_ = EndToEnd::NewStub(channel_);
    inline_stub_ = Inline::NewStub(channel_);
    service_.set_stub(stub_.get());
  }

  absl::Status Echo(const std::string& payload, int depth = 0) {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
    request.set_payload(payload);
    request.set_reply_bytes(depth);
    absl::Status status = stub_->Echo(&context, request, &reply);
    EXPECT_TRUE(!status.ok() || depth > 0 || reply.payload() == payload);
    return status;
  }

  bool EchoRunsOnThePoller() {
    EXPECT_EQ(Echo("hello"), absl::OkStatus());
    return service_.echo_thread() == PollingThread();
  }
  std::thread::id PollingThread() {
    ClientContext context;
    EchoReply reply;
    EXPECT_EQ(inline_stub_->Echo(&context, EchoRequest(), &reply),
              absl::OkStatus());
    return teller_.thread();
  }
  // Calls Echo until it has proved to be short; false if it has not by then.
  bool EchoProvesShortBy(absl::Time deadline) {
    while (!EchoRunsOnThePoller()) {
      if (absl::Now() > deadline) return false;
    }
    return true;
  }
  void ProveEcho() {
    ASSERT_TRUE(EchoProvesShortBy(absl::Now() + absl::Minutes(2)))
        << "echoes still go to workers";
  }

  // An Echo on a thread of its own, of which `status` tells when it is joined.
  struct Waiting {
    absl::Status status;
    std::thread thread;
  };
  std::unique_ptr<Waiting> EchoThatWaits() {
    auto waiting = std::make_unique<Waiting>();
    waiting->thread = std::thread(
        [this, raw = waiting.get()] { raw->status = Echo("wait"); });
    service_.AwaitWaiting(1);
    return waiting;
  }

  Obedient service_;
  PollerTeller teller_;
  int port_ = 0;
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
  std::unique_ptr<Inline::Stub> inline_stub_;
};

TEST_F(BlockingHandlersTest, AShortMethodRunsOnTheThreadThatPolls) {
  ProveEcho();
}

TEST_F(BlockingHandlersTest, OneThatBlocksAfterAllHoldsNobodyUp) {
  // Each time Echo must prove itself by more quick calls in a row. On an
  // emulated processor, where many are slow, the later proofs may not succeed.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  int blocked = 0;
  ProveEcho();
  while (blocked < 3 && EchoProvesShortBy(deadline)) {
    service_.Close();
    const std::thread::id polled = PollingThread();
    auto waiting = EchoThatWaits();
    // Or a worker, if the method has looked slow since: the machine was busy.
    const bool blocks_poller = service_.waiting_thread() == polled;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(Echo("hello"), absl::OkStatus());
    }
    if (blocks_poller) {
      EXPECT_NE(PollingThread(), polled);
      ++blocked;
    }
    service_.Open();
    waiting->thread.join();
    EXPECT_EQ(waiting->status, absl::OkStatus());
  }
  EXPECT_GT(blocked, 0) << "none blocked the thread that polls";
}

TEST_F(BlockingHandlersTest, OneThatWaitsForTheCallBehindItGetsIt) {
  ProveEcho();
  EchoRequest requests[2];
  EchoReply replies[2];
  ClientContext contexts[2];
  Countdown ended(2);
  requests[0].set_payload("wait");
  requests[1].set_payload("open");
  for (int i = 0; i < 2; ++i) {
    stub_->async()->Echo(&contexts[i], &requests[i], &replies[i],
                         [&ended](const absl::Status& status) {
                           EXPECT_EQ(status, absl::OkStatus());
                           ended.Done();
                         });
  }
  ended.Wait();
}

TEST_F(BlockingHandlersTest, AServiceMayCallItself) {
  EXPECT_EQ(Echo("recurse", 10), absl::OkStatus());
  ProveEcho();
  EXPECT_EQ(Echo("recurse", 10), absl::OkStatus());
}

TEST_F(BlockingHandlersTest, ManyThatBlockLeaveRoomForOtherMethods) {
  constexpr int kChannels = 8;
  constexpr int kCallsEach = 250;
  struct Call {
    ClientContext context;
    Key request;
    Nothing reply;
  };
  std::deque<Call> calls;
  std::vector<std::unique_ptr<EndToEnd::Stub>> stubs;
  Countdown ended(kChannels * kCallsEach);
  for (int i = 0; i < kChannels; ++i) {
    stubs.push_back(EndToEnd::NewStub(CreateChannel(Address(port_))));
    for (int j = 0; j < kCallsEach; ++j) {
      Call& call = calls.emplace_back();
      stubs.back()->async()->Block(&call.context, &call.request, &call.reply,
                                   [&ended](const absl::Status& status) {
                                     EXPECT_EQ(status, absl::OkStatus());
                                     ended.Done();
                                   });
    }
  }
  // A method can have 224 threads at most.
  service_.AwaitWaiting(224);
  // Echo has not proved to be short yet, so it needs a worker, too.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Echo("hello"), absl::OkStatus());
  service_.Open();
  ended.Wait();
}

TEST_F(BlockingHandlersTest, OneThatThrowsEndsItsCallAlone) {
  const auto expect_unknown = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnknown(status)) << status;
    EXPECT_EQ(status.ToString().find("secret"), std::string::npos) << status;
  };
  expect_unknown(Echo("throw"));  // On a worker.
  ProveEcho();
  expect_unknown(Echo("throw"));  // On the thread that polls.
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  request.set_payload("throw");
  expect_unknown(inline_stub_->Echo(&context, request, &reply));
  EXPECT_EQ(Echo("hello"), absl::OkStatus());
}

TEST_F(BlockingHandlersTest, ShutdownWaitsForOneThatBlocks) {
  ProveEcho();
  auto waiting = EchoThatWaits();
  std::thread shutdown([this] { server_->Shutdown(); });
  // Calls fail when the client has heard of the shutdown.
  while (Echo("hello").ok()) {
  }
  service_.Open();
  waiting->thread.join();
  EXPECT_EQ(waiting->status, absl::OkStatus());
  shutdown.join();
}

TEST_F(BlockingHandlersTest, ShutdownEndsOneThatBlocksAtItsDeadline) {
  ProveEcho();
  auto waiting = EchoThatWaits();
  server_->Shutdown(absl::Now() + absl::Milliseconds(50));
  waiting->thread.join();
  EXPECT_EQ(waiting->status.code(), absl::StatusCode::kUnavailable)
      << waiting->status;
}

}  // namespace
}  // namespace verbena::end_to_end
