// A server whose streams fail, and channels that try them again.

#ifndef VERBENA_TESTS_INTEGRATION_STREAM_RETRIES_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_STREAM_RETRIES_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

inline constexpr char kPreviousAttempts[] = "grpc-previous-rpc-attempts";

// How the server ends a stream early.
struct Failure {
  absl::Status status = absl::UnavailableError("not today");
  int reads = 0;   // Items that the server reads before; -1 for all.
  int writes = 0;  // Items that the server sends before.
  bool sends_metadata = false;
};

// A stream as the server has seen it.
struct Seen {
  std::string previous;           // The number of attempts before.
  std::vector<uint64_t> numbers;  // Numbers of the items, in order.
  std::vector<std::string> attachments;
  bool intact = true;  // All items had the pattern of their number.
};

// Ends its streams with the failures of a list, and after those well: List()
// sends `count` items, Record() counts them, and Chat() sends each back.
class FlakyStreams final : public StreamService::Service {
 public:
  void FailWith(std::deque<Failure> failures) {
    const base::MutexLock lock(mutex_);
    failures_ = std::move(failures);
    seen_.clear();
  }
  void PushBack(std::string pushback) {
    const base::MutexLock lock(mutex_);
    pushback_ = std::move(pushback);
  }
  // Waits until so many attempts have begun.
  void AwaitAttempts(size_t count) {
    const base::MutexLock lock(mutex_);
    while (seen_.size() < count) changed_.Wait(mutex_);
  }
  std::vector<Seen> seen() {
    const base::MutexLock lock(mutex_);
    std::vector<Seen> copies;
    for (const auto& each : seen_) copies.push_back(*each);
    return copies;
  }
  std::vector<std::string> previous() {
    std::vector<std::string> previous;
    for (const Seen& seen : seen()) previous.push_back(seen.previous);
    return previous;
  }

  absl::Status List(ServerContext* context, const ListRequest* request,
                    ServerWriter<Item>* writer) override {
    const auto write = [&](const Item& item) { return writer->Write(item); };
    const std::shared_ptr<Seen> seen = Begin(context);
    Failure failure;
    if (Fails(&failure)) return Fail(context, failure, {}, write);
    for (uint64_t i = 0; i < request->count(); ++i) {
      write(NewItem(i, request->payload_bytes()));
    }
    context->AddTrailingMetadata("ended", seen->previous);
    return absl::OkStatus();
  }
  absl::Status Record(ServerContext* context, ServerReader<Item>* reader,
                      Summary* response) override {
    const std::shared_ptr<Seen> seen = Begin(context);
    const auto read = [&](Item* item) { return Read(reader, *seen, item); };
    Failure failure;
    if (Fails(&failure)) return Fail(context, failure, read, {});
    Item item;
    response->set_in_order(true);
    while (read(&item)) {
      if (item.number() != response->count()) response->set_in_order(false);
      response->set_count(response->count() + 1);
    }
    context->AddTrailingMetadata("ended", seen->previous);
    return absl::OkStatus();
  }
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>* stream) override {
    const std::shared_ptr<Seen> seen = Begin(context);
    const auto read = [&](Item* item) { return Read(stream, *seen, item); };
    const auto write = [&](const Item& item) { return stream->Write(item); };
    Failure failure;
    if (Fails(&failure)) return Fail(context, failure, read, write);
    Item item;
    while (read(&item) && write(item)) {
    }
    context->AddTrailingMetadata("ended", seen->previous);
    return absl::OkStatus();
  }

 private:
  using Reading = std::function<bool(Item*)>;
  using Writing = std::function<bool(const Item&)>;

  // Returns where the handler notes what it sees. If its call is cancelled, it
  // may run on when the list is empty again.
  std::shared_ptr<Seen> Begin(ServerContext* context) {
    const base::MutexLock lock(mutex_);
    const auto found = context->client_metadata().find(kPreviousAttempts);
    const auto seen = std::make_shared<Seen>();
    if (found != context->client_metadata().end()) {
      seen->previous = found->second;
    }
    context->AddTrailingMetadata("previous", seen->previous);
    if (!pushback_.empty()) {
      context->AddTrailingMetadata("grpc-retry-pushback-ms", pushback_);
    }
    seen_.push_back(seen);
    changed_.NotifyAll();
    return seen;
  }
  bool Fails(Failure* failure) {
    const base::MutexLock lock(mutex_);
    if (failures_.empty()) return false;
    *failure = failures_.front();
    failures_.pop_front();
    return true;
  }
  static absl::Status Fail(ServerContext* context, const Failure& failure,
                           const Reading& read, const Writing& write) {
    Item item;
    for (int i = 0; i != failure.reads; ++i) {
      if (!read(&item)) break;
    }
    if (failure.sends_metadata) {
      context->AddInitialMetadata("begun", "yes");
      context->SendInitialMetadata();
    }
    for (int i = 0; i < failure.writes; ++i) {
      write(NewItem(static_cast<uint64_t>(i)));
    }
    return failure.status;
  }
  template <typename Stream>
  bool Read(Stream* stream, Seen& seen, Item* item) {
    Buffer attachment;
    if (!stream->Read(item, &attachment)) return false;
    const base::MutexLock lock(mutex_);
    seen.numbers.push_back(item->number());
    seen.attachments.emplace_back(
        reinterpret_cast<const char*>(attachment.span().data()),
        attachment.size());
    if (item->payload() != Pattern(item->payload().size(), item->number())) {
      seen.intact = false;
    }
    return true;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Failure> failures_ ABSL_GUARDED_BY(mutex_);
  std::string pushback_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Seen>> seen_ ABSL_GUARDED_BY(mutex_);
};

class FlakyStreamsTest : public ::testing::Test {
 protected:
  FlakyStreamsTest() { StartServer(); }

  void StartServer() {
    ServerBuilder builder;
    builder.AddListeningPort(Address(), &port_);
    builder.RegisterService(&service_);
    auto server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Address() const {
    return absl::StrCat(testing_support::TestAddress(), ":", port_);
  }

  // The calls have a policy of four attempts, with `pause` before each, and
  // `fields` in the config beside.
  void Connect(const std::string& pause = "0.001s",
               const std::string& fields = "") {
    options_.service_config = absl::StrCat(
        R"({"methodConfig": [{"name": [{}], "retryPolicy": {
            "maxAttempts": 4, "initialBackoff": ")",
        pause, R"(", "maxBackoff": ")", pause,
        R"(", "backoffMultiplier": 1,
            "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"]}}])",
        fields, "}");
    ConnectWithOptions();
  }
  void ConnectWithOptions() {
    options_.initial_backoff = absl::Milliseconds(10);
    // Busy hosts may need more than the default.
    options_.connect_timeout = absl::Minutes(1);
    channel_ = CreateChannel(Address(), options_);
  }

  static std::vector<Item> Items(uint64_t count, size_t payload_bytes = 0) {
    std::vector<Item> items;
    for (uint64_t i = 0; i < count; ++i) {
      items.push_back(NewItem(i, payload_bytes));
    }
    return items;
  }
  static std::vector<uint64_t> NumbersTo(uint64_t count) {
    std::vector<uint64_t> numbers;
    for (uint64_t i = 0; i < count; ++i) numbers.push_back(i);
    return numbers;
  }

  FlakyStreams service_;
  std::unique_ptr<Server> server_;
  int port_ = 0;
  ChannelOptions options_;
  std::shared_ptr<Channel> channel_;
};

// Each test runs with each form of client.
class StreamRetriesTest : public FlakyStreamsTest,
                          public ::testing::WithParamInterface<Form> {
 protected:
  std::unique_ptr<FormClient> client() const {
    return FormClient::New(GetParam(), channel_);
  }
  CallOutcome List(uint64_t count) {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    return List(&context, count);
  }
  CallOutcome List(ClientContext* context, uint64_t count) {
    ListRequest request;
    request.set_count(count);
    return client()->List(context, request);
  }
  CallOutcome Record(const std::vector<Item>& items,
                     const std::string& attachment = "") {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    return client()->Record(&context, items, attachment);
  }
  CallOutcome Chat(const std::vector<Item>& items) {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    return client()->Chat(&context, items, "");
  }
};

inline std::string NameOfForm(const ::testing::TestParamInfo<Form>& info) {
  return NameOf(info.param);
}

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_STREAM_RETRIES_FIXTURE_H_
