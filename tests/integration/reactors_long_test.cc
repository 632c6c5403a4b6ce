// Long messages to reactors and coroutines: workers parse them, because a
// poller would serve nobody else meanwhile.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;

constexpr size_t kLong = 1000000;

std::vector<Item> Items(int count, size_t bytes) {
  std::vector<Item> items(count);
  for (int i = 0; i < count; ++i) {
    items[i].set_payload(Pattern(bytes, i));
  }
  return items;
}

class ReactorsLongTest : public FormsTest,
                         public testing::WithParamInterface<Form> {
 protected:
  void ExpectEcho(int count, size_t bytes, const std::string& attachment) {
    const std::vector<Item> items = Items(count, bytes);
    ClientContext context;
    const CallOutcome outcome = FormClient::New(Form::kReactor, channel_)
                                    ->Chat(&context, items, attachment);
    EXPECT_EQ(outcome.status, absl::OkStatus());
    ASSERT_EQ(outcome.items.size(), items.size());
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(outcome.items[i].payload(), items[i].payload()) << i;
      EXPECT_EQ(outcome.attachments[i], attachment) << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, ReactorsLongTest,
                         testing::Values(Form::kReactor, Form::kCoroutine),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ReactorsLongTest, WorkersParseLongMessagesOfStreamsAndNoOthers) {
  Serve(GetParam());
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(10, 10000, "short"));
  EXPECT_EQ(server_->GetMetrics().workers, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(10, kLong, "short"));
  EXPECT_EQ(server_->GetMetrics().workers, 1u);
}

TEST_P(ReactorsLongTest, LongAttachmentsComeWithTheirMessages) {
  Serve(GetParam());
  const std::string attachment = Pattern(kLong, 7);
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(5, kLong, attachment));
  ASSERT_NO_FATAL_FAILURE(ExpectEcho(5, 10, attachment));
}

TEST_P(ReactorsLongTest, LongMessagesStayInOrder) {
  Serve(GetParam());
  std::vector<Item> items = Items(200, 10);
  size_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].set_number(i);
    if (i % 5 == 0) items[i].set_payload(Pattern(100000, i));
    bytes += items[i].payload().size();
  }
  ClientContext context;
  const CallOutcome outcome =
      FormClient::New(Form::kReactor, channel_)->Record(&context, items, "");
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_EQ(outcome.summary.count(), items.size());
  EXPECT_EQ(outcome.summary.payload_bytes(), bytes);
  EXPECT_TRUE(outcome.summary.in_order());
}

// Ends its call from another thread while a worker parses its second message.
class Hasty final : public ServerReadReactor<Item> {
 public:
  // `await_worker` returns when a worker has begun.
  Hasty(const std::function<void()>& await_worker,
        std::vector<std::string>* read, Countdown* done)
      : await_worker_(await_worker), read_(*read), done_(*done) {
    StartRead(&item_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    read_.push_back(item_.payload());
    if (read_.size() > 1) return;
    StartRead(&item_);
    ender_ = std::thread([this] {
      await_worker_();
      Finish(absl::OkStatus());
    });
  }
  void OnDone() override {
    ender_.join();
    Countdown& done = done_;
    delete this;
    done.Done();
  }

 private:
  const std::function<void()>& await_worker_;
  std::vector<std::string>& read_;
  Countdown& done_;
  std::thread ender_;
  Item item_;
};

class HastyService final : public StreamService::CallbackService {
 public:
  HastyService(std::function<void()> await_worker,
               std::vector<std::string>* read, Countdown* done)
      : await_worker_(std::move(await_worker)), read_(read), done_(done) {}
  ServerReadReactor<Item>* Record(CallbackServerContext* /*context*/,
                                  Summary* /*response*/) override {
    return new Hasty(await_worker_, read_, done_);
  }

 private:
  const std::function<void()> await_worker_;
  std::vector<std::string>* const read_;
  Countdown* const done_;
};

using ReactorsHastyTest = FormsTest;

TEST_F(ReactorsHastyTest, AReactorThatFinishesGetsTheMessageThatAWorkerParses) {
  std::vector<std::string> read;
  Countdown done(1);
  Serve<HastyService>(
      [this] {
        while (server_->GetMetrics().workers == 0) std::this_thread::yield();
      },
      &read, &done);
  const auto stub = StreamService::NewStub(channel_);
  ClientContext context;
  Summary summary;
  const auto writer = stub->Record(&context, &summary);
  Item item;
  item.set_payload("short");
  EXPECT_TRUE(writer->Write(item));
  item.set_payload(Pattern(16 * kLong, 1));
  writer->Write(item);
  EXPECT_EQ(writer->Finish(), absl::OkStatus());
  done.Wait();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1], item.payload());
}

TEST_F(ReactorsHastyTest, AStreamEndsWhenTooManyCallsWaitForWorkers) {
  EndToEndService blocking;
  FormServices reactors(Form::kReactor);
  ServerBuilder builder;
  builder.SetWorkerThreads(1).SetMaxWorkerThreads(1).SetWorkerQueueLimit(1);
  builder.RegisterService(&blocking);
  reactors.Register(&builder);
  Start(&builder, ChannelOptions());
  const auto stub = EndToEnd::NewStub(channel_);
  ClientContext contexts[2];
  Key keys[2];
  Nothing replies[2];
  Countdown ended(2);
  for (int i = 0; i < 2; ++i) {
    keys[i].set_key(absl::StrCat("key ", i));
    stub->async()->Block(&contexts[i], &keys[i], &replies[i],
                         [&ended](const absl::Status&) { ended.Done(); });
    // The second one has to find the worker busy.
    if (i == 0) blocking.AwaitBlocked("key 0");
  }
  ClientContext context;
  const CallOutcome outcome = FormClient::New(Form::kReactor, channel_)
                                  ->Chat(&context, Items(2, kLong), "");
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted)
      << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()),
              HasSubstr("SetWorkerQueueLimit"));
  blocking.Release("key 0");
  blocking.Release("key 1");
  ended.Wait();
  server_.reset();
}

}  // namespace
}  // namespace verbena::end_to_end
