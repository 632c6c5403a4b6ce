// What is particular to reactors, to coroutines, and to handlers that are told
// that nobody waits any more.

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
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
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

// What the handlers of one server have told.
struct Ledger {
  std::atomic<int> cancels{0};
  Countdown begun{1};
  Countdown done{1};
};

// Reads until the client is gone or has sent all.
class Listening final : public ServerBidiReactor<Item, Item> {
 public:
  explicit Listening(Ledger* ledger) : ledger_(*ledger) {
    StartRead(&item_);
    ledger_.begun.Done();
  }
  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&item_);
    Finish(absl::OkStatus());
  }
  void OnCancel() override { ++ledger_.cancels; }
  void OnDone() override {
    Ledger& ledger = ledger_;
    delete this;
    ledger.done.Done();
  }

 private:
  Ledger& ledger_;
  Item item_;
};

class ListeningService final : public StreamService::CallbackService {
 public:
  explicit ListeningService(Ledger* ledger) : ledger_(ledger) {}
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext*) override {
    return new Listening(ledger_);
  }

 private:
  Ledger* const ledger_;
};

class ReactorsTest : public FormsTest {
 protected:
  std::unique_ptr<StreamService::Stub> NewStub() {
    return StreamService::NewStub(channel_);
  }
};

TEST_F(ReactorsTest, AHandlerIsToldThatTheClientCancelled) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ledger.begun.Wait();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AHandlerIsToldThatTheDeadlineHasPassed) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  context.set_timeout(absl::Milliseconds(300));
  const auto stream = stub->Chat(&context);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AHandlerIsToldThatTheChannelIsGone) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  {
    ClientContext context;
    const auto stub = NewStub();
    channel_.reset();
    const auto stream = stub->Chat(&context);
    ledger.begun.Wait();
  }
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AServerThatShutsDownTellsItsHandlers) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ledger.begun.Wait();
  server_->Shutdown(absl::Now());
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AMethodThatIsNotOverriddenIsUnimplementedInEveryForm) {
  for (const bool coroutines : {false, true}) {
    if (coroutines) {
      Serve<StreamService::CoroutineService>();
    } else {
      Serve<StreamService::CallbackService>();
    }
    const std::unique_ptr<FormClient> client =
        FormClient::New(Form::kReactor, channel_);
    for (int kind = 0; kind < 3; ++kind) {
      ClientContext context;
      const absl::Status status =
          kind == 0   ? client->List(&context, ListRequest()).status
          : kind == 1 ? client->Record(&context, {Item()}, "").status
                      : client->Chat(&context, {Item()}, "").status;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    }
  }
}

// Writes from a thread of its own.
class Writer final : public ClientWriteReactor<Item> {
 public:
  void Write(int items) {
    for (int i = 0; i < items; ++i) {
      item_.set_number(static_cast<uint64_t>(i));
      Countdown written(1);
      written_ = &written;
      StartWrite(&item_);
      written.Wait();
    }
    StartWritesDone();
    RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    EXPECT_TRUE(ok);
    written_->Done();
  }
  void OnDone(const absl::Status& status) override {
    EXPECT_EQ(status, absl::OkStatus());
    done.Done();
  }

  Countdown done{1};

 private:
  Item item_;
  Countdown* written_ = nullptr;
};

TEST_F(ReactorsTest, AHoldKeepsTheEndFromWhoWritesFromElsewhere) {
  Serve(Form::kReactor);
  const auto stub = NewStub();
  ClientContext context;
  Summary summary;
  Writer writer;
  stub->async()->Record(&context, &summary, &writer);
  writer.AddHold();
  writer.StartCall();
  std::thread thread([&] { writer.Write(1000); });
  writer.done.Wait();
  thread.join();
  EXPECT_EQ(summary.count(), 1000u);
  EXPECT_TRUE(summary.in_order());
}

// --- Coroutines ---

// One thread that resumes coroutines.
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

TEST_F(ReactorsTest, ACoroutineGoesOnWhereItsExecutorSays) {
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

TEST_F(ReactorsTest, AHandlerMayMoveToAnExecutor) {
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

TEST_F(ReactorsTest, ACoroutineThatThrowsEndsItsCallAndNotTheServer) {
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

Task<void> BeginAndLeave(StreamService::Stub* stub, ClientContext* context,
                         bool with_message) {
  auto stream = stub->co()->Chat(context);
  Item item = NewItem(1, 10);
  if (with_message) {
    co_await stream.Write(item);
    co_await stream.Read(&item);
  }
}

TEST_F(ReactorsTest, AStreamThatACoroutineLeavesIsCancelled) {
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
  // Until the server is told to let go.
  EXPECT_FALSE(co_await stream.Read(&item));
  const absl::Status status = co_await stream.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  co_return item.number() - 100;
}

// As many as the connections carry.
TEST_F(ReactorsTest, ThousandsOfCallsWaitWithoutAThreadEach) {
  constexpr size_t kChannels = 16;
  constexpr size_t kCalls = 4000;
  Serve(Form::kCoroutine);
  std::vector<std::unique_ptr<StreamService::Stub>> stubs;
  for (size_t i = 0; i < kChannels; ++i) {
    stubs.push_back(StreamService::NewStub(
        CreateChannel(channel_->target(), ChannelOptions())));
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

// --- stop_token() ---

class StoppableService final : public StreamService::Service {
 public:
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>*) override {
    const std::stop_callback told(context->stop_token(),
                                  [this] { cancelled_.Done(); });
    begun_.Done();
    cancelled_.Wait();
    return absl::OkStatus();
  }
  void AwaitBegun() { begun_.Wait(); }

 private:
  Countdown begun_{1};
  Countdown cancelled_{1};
};

TEST_F(ReactorsTest, ABlockingHandlerMayHaveItselfToldOfTheCancellation) {
  auto& service = Serve<StoppableService>();
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  service.AwaitBegun();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
}

// --- Calls that are cancelled at any moment ---

class CancelledAnywhereTest
    : public FormsTest,
      public ::testing::WithParamInterface<std::tuple<Form, Form>> {};

INSTANTIATE_TEST_SUITE_P(Forms, CancelledAnywhereTest,
                         testing::Combine(testing::ValuesIn(kForms),
                                          testing::ValuesIn(kForms)),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) + "Calls" +
                                  NameOf(std::get<1>(info.param));
                         });

TEST_P(CancelledAnywhereTest, EachCallEndsAndTheNextIsAsGoodAsNew) {
  Serve(std::get<1>(GetParam()));
  const auto client = FormClient::New(std::get<0>(GetParam()), channel_);
  const std::vector<Item> items(50, NewItem(1, 3000));
  ListRequest request;
  request.set_count(500);
  request.set_payload_bytes(3000);
  for (int i = 0; i < 60; ++i) {
    ClientContext context;
    std::thread canceller([&context, i] {
      // Later with each call; how much is all the same.
      for (std::atomic<int> spins = 0; spins < i * i * 20;) ++spins;
      context.TryCancel();
    });
    const absl::Status status =
        i % 3 == 0   ? client->List(&context, request).status
        : i % 3 == 1 ? client->Record(&context, items, "beside").status
                     : client->Chat(&context, items, "beside").status;
    canceller.join();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  ClientContext context;
  EXPECT_EQ(client->Chat(&context, items, "").items.size(), items.size());
}

}  // namespace
}  // namespace verbena::end_to_end
