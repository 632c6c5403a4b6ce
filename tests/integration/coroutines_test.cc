// Tests of features that only coroutines have, at the client and as handlers.

#include <coroutine>
#include <cstddef>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/task.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/testing/test_tls.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

class CoroutinesTest : public FormsTest {
 protected:
  std::unique_ptr<StreamService::Stub> NewStub() {
    return StreamService::NewStub(channel_);
  }
};

// Resumes coroutines on one thread.
class OneThread final : public Executor {
 public:
  OneThread() : thread_([this] { Run(); }) {}
  ~OneThread() override {
    Execute(nullptr);
    thread_.join();
  }
  void Execute(std::coroutine_handle<> coroutine) override {
    const base::MutexLock lock(mutex_);
    waiting_.push_back(coroutine);
    changed_.NotifyAll();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void Run() {
    while (const std::coroutine_handle<> next = Next()) next.resume();
  }
  std::coroutine_handle<> Next() {
    const base::MutexLock lock(mutex_);
    while (waiting_.empty()) changed_.Wait(mutex_);
    const std::coroutine_handle<> next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::coroutine_handle<>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

Task<void> CallOnExecutor(const std::shared_ptr<Channel>& channel,
                          OneThread* executor) {
  const auto inline_stub = Inline::NewStub(channel);
  const auto stub = StreamService::NewStub(channel);
  for (int i = 0; i < 100; ++i) {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
    request.set_payload("where?");
    EXPECT_EQ(
        co_await inline_stub->co(executor)->Echo(&context, request, &reply),
        absl::OkStatus());
    EXPECT_EQ(reply.payload(), "where?");
    EXPECT_EQ(std::this_thread::get_id(), executor->id());
    auto stream = stub->co(executor)->Chat(&context);
    Item item = NewItem(7, 100);
    EXPECT_TRUE(co_await stream.Write(item));
    EXPECT_TRUE(co_await stream.Read(&item));
    EXPECT_EQ(std::this_thread::get_id(), executor->id());
    stream.WritesDone();
    EXPECT_EQ(co_await stream.Finish(), absl::OkStatus());
    EXPECT_EQ(std::this_thread::get_id(), executor->id());
  }
}

TEST_F(CoroutinesTest, ACoroutineGoesOnWhereItsExecutorSays) {
  Serve(Form::kCoroutine);
  OneThread executor;
  SyncWait(CallOnExecutor(channel_, &executor));
}

// Moves to an executor and back to what it answers.
class MovingService final : public StreamService::CoroutineService {
 public:
  explicit MovingService(OneThread* executor) : executor_(executor) {}
  Task<absl::Status> Chat(
      ServerContext*,
      CoroutineServerReaderWriter<Item, Item>* stream) override {
    co_await ResumeOn(executor_);
    EXPECT_EQ(std::this_thread::get_id(), executor_->id());
    stream->set_executor(executor_);
    Item item;
    while (co_await stream->Read(&item)) {
      EXPECT_EQ(std::this_thread::get_id(), executor_->id());
      if (!co_await stream->Write(item)) break;
    }
    co_return absl::OkStatus();
  }

 private:
  OneThread* const executor_;
};

TEST_F(CoroutinesTest, AHandlerMayMoveToAnExecutor) {
  OneThread executor;
  Serve<MovingService>(&executor);
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Echoes(*stream, NewItem(i, 64)));
  }
  stream->WritesDone();
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  server_.reset();  // Before the executor.
}

class ThrowingService final : public StreamService::CoroutineService {
 public:
  Task<absl::Status> Chat(
      ServerContext*,
      CoroutineServerReaderWriter<Item, Item>* stream) override {
    Item item;
    co_await stream->Read(&item);
    throw std::runtime_error("not for the client's eyes");
  }
};

TEST_F(CoroutinesTest, ACoroutineThatThrowsEndsItsCallAndNotTheServer) {
  Serve<ThrowingService>();
  for (int i = 0; i < 3; ++i) {
    ClientContext context;
    EXPECT_EQ(FormClient::New(Form::kCoroutine, channel_)
                  ->Chat(&context, {Item()}, "")
                  .status,
              absl::UnknownError("verbena.end_to_end.StreamService/Chat: the "
                                 "handler threw an exception"));
  }
}

Task<void> FinishTwice(StreamService::Stub* stub) {
  ClientContext context;
  auto stream = stub->co()->Chat(&context);
  stream.WritesDone();
  const absl::Status status = co_await stream.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(co_await stream.Finish(), status);
}

TEST_F(CoroutinesTest, ASecondFinishReturnsTheSameStatus) {
  Serve<ThrowingService>();
  SyncWait(FinishTwice(NewStub().get()));
}

Task<void> BeginAndLeave(StreamService::Stub* stub, ClientContext* context,
                         bool with_message) {
  auto stream = stub->co()->Chat(context);
  Item item = NewItem(1, 10);
  if (with_message) {
    co_await stream.Write(item);
    co_await stream.Read(&item);
  }
}

Task<void> WriteAndLeave(StreamService::Stub* stub, ClientContext* context,
                         bool may_start) {
  Summary summary;
  auto writer = stub->co()->Record(context, &summary);
  EXPECT_EQ(co_await writer.Write(NewItem(1, 10)), may_start);
}

TEST_F(CoroutinesTest, ACoroutineMayLeaveWhatItWritesTo) {
  Serve(Form::kCoroutine);
  const auto stub = NewStub();
  for (int i = 0; i < 200; ++i) {
    ClientContext context;
    // Too many, so that the call can't even be started.
    if (i % 2 == 1) context.AddMetadata("key", std::string(100000, 'x'));
    SyncWait(WriteAndLeave(stub.get(), &context, i % 2 == 0));
  }
}

TEST_F(CoroutinesTest, AStreamThatACoroutineLeavesIsCancelled) {
  Serve(Form::kReactor);
  const auto stub = NewStub();
  for (int i = 0; i < 200; ++i) {
    ClientContext context;
    SyncWait(BeginAndLeave(stub.get(), &context, i % 2 == 1));
    // And the context is free, for as long as it lives.
  }
}

Task<size_t> OneChat(StreamService::Stub* stub, Countdown* waiting,
                     size_t number) {
  ClientContext context;
  auto stream = stub->co()->Chat(&context);
  Item item = NewItem(number + 100, 10);
  EXPECT_TRUE(co_await stream.Write(item));
  EXPECT_TRUE(co_await stream.Read(&item));
  waiting->Done();
  // Waits until the shutdown of the server ends the stream.
  EXPECT_FALSE(co_await stream.Read(&item));
  const absl::Status status = co_await stream.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  co_return item.number() - 100;
}

// As many as the connections carry.
TEST_F(CoroutinesTest, ThousandsOfCallsWaitWithoutAThreadEach) {
  constexpr size_t kChannels = 16;
  constexpr size_t kCalls = 4000;
  Serve(Form::kCoroutine);
  std::vector<std::unique_ptr<StreamService::Stub>> stubs;
  for (size_t i = 0; i < kChannels; ++i) {
    stubs.push_back(StreamService::NewStub(CreateChannel(
        channel_->target(), testing_support::TestChannelCredentials())));
  }
  Countdown waiting(kCalls);
  std::vector<Task<size_t>> tasks;
  for (size_t i = 0; i < kCalls; ++i) {
    tasks.push_back(OneChat(stubs[i % kChannels].get(), &waiting, i));
  }
  std::thread closer([&] {
    waiting.Wait();
    server_->Shutdown(absl::Now());
  });
  const std::vector<size_t> numbers = SyncWait(WhenAll(std::move(tasks)));
  closer.join();
  ASSERT_EQ(numbers.size(), kCalls);
  for (size_t i = 0; i < kCalls; ++i) EXPECT_EQ(numbers[i], i);
}

}  // namespace
}  // namespace verbena::end_to_end
