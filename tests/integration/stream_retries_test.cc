// Streams that fail are tried again until something of their answers has come.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/client_interceptor.h"
#include "rpc/metrics.h"
#include "tests/integration/stream_retries_fixture.h"

namespace verbena::end_to_end {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

absl::Status Aborted() { return absl::AbortedError("not now"); }

INSTANTIATE_TEST_SUITE_P(Forms, StreamRetriesTest, testing::ValuesIn(kForms),
                         NameOfForm);

TEST_P(StreamRetriesTest, AStreamOfResponsesIsTriedAgainUntilItEndsWell) {
  Connect();
  service_.FailWith({{}, {.status = Aborted()}, {}});
  const CallOutcome outcome = List(3);
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_THAT(outcome.items, SizeIs(3));
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2", "3"));
  EXPECT_EQ(channel_->GetMetrics().retries, 3u);
}

TEST_P(StreamRetriesTest, AStreamOfRequestsIsSentAgainFromItsBeginning) {
  Connect();
  service_.FailWith({{.reads = 2}, {.reads = 0}, {.reads = -1}});
  const CallOutcome outcome = Record(Items(10, 100), "beside");
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_EQ(outcome.summary.count(), 10u);
  EXPECT_TRUE(outcome.summary.in_order());
  const std::vector<Seen> seen = service_.seen();
  ASSERT_THAT(seen, SizeIs(4));
  EXPECT_EQ(seen[0].numbers, NumbersTo(2));
  EXPECT_EQ(seen[1].numbers, NumbersTo(0));
  EXPECT_EQ(seen[2].numbers, NumbersTo(10));
  EXPECT_EQ(seen[3].numbers, NumbersTo(10));
  for (const Seen& each : seen) {
    EXPECT_TRUE(each.intact);
    EXPECT_THAT(each.attachments, Each("beside"));
  }
}

TEST_P(StreamRetriesTest, AChatIsTriedAgainUntilItsFirstAnswer) {
  Connect();
  service_.FailWith({{.reads = 1}, {.reads = 0}, {.reads = 1}});
  const CallOutcome outcome = Chat(Items(5, 1000));
  EXPECT_EQ(outcome.status, absl::OkStatus());
  ASSERT_THAT(outcome.items, SizeIs(5));
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(outcome.items[i].number(), i);
  const std::vector<Seen> seen = service_.seen();
  ASSERT_THAT(seen, SizeIs(4));
  EXPECT_EQ(seen[3].numbers, NumbersTo(5));
}

TEST_P(StreamRetriesTest, AStreamWithoutMessagesIsTriedAgain) {
  Connect();
  service_.FailWith({{.reads = -1}, {.reads = -1}});
  const CallOutcome outcome = Record({});
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_EQ(outcome.summary.count(), 0u);
  EXPECT_THAT(service_.previous(), ElementsAre("", "1", "2"));
}

// Short messages share a frame, and long ones go beside the others.
TEST_P(StreamRetriesTest, MessagesOfAllLengthsAreSentAgainAsTheyWere) {
  Connect();
  std::vector<Item> items;
  for (const size_t bytes : {100, 0, 20'000, 3, 40'000, 16'000, 17'000, 70'000,
                             1, 8192, 30'000, 5}) {
    items.push_back(NewItem(items.size(), bytes));
  }
  service_.FailWith({{.reads = -1}, {.reads = 5}, {.reads = -1}});
  const std::string attachment = Pattern(1000, 7);
  const CallOutcome outcome = Record(items, attachment);
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_TRUE(outcome.summary.in_order());
  const std::vector<Seen> seen = service_.seen();
  ASSERT_THAT(seen, SizeIs(4));
  for (const Seen& each : seen) {
    EXPECT_EQ(each.numbers, NumbersTo(each.numbers.size()));
    EXPECT_TRUE(each.intact);
    EXPECT_THAT(each.attachments, Each(attachment));
  }
  EXPECT_THAT(seen[2].numbers, SizeIs(items.size()));
  EXPECT_THAT(seen[3].numbers, SizeIs(items.size()));
}

// Its bytes are many times the window of a stream.
TEST_P(StreamRetriesTest, ALongStreamEndsInItsMiddleAndBeginsAnew) {
  Connect();
  service_.FailWith({{.reads = 30}, {.reads = 150}, {.reads = 200}});
  const CallOutcome outcome = Record(Items(240, 1000));
  EXPECT_EQ(outcome.status, absl::OkStatus());
  EXPECT_EQ(outcome.summary.count(), 240u);
  EXPECT_TRUE(outcome.summary.in_order());
  for (const Seen& each : service_.seen()) {
    EXPECT_EQ(each.numbers, NumbersTo(each.numbers.size()));
    EXPECT_TRUE(each.intact);
  }
}

TEST_P(StreamRetriesTest, TheLastAttemptsStatusIsThatOfTheCall) {
  Connect();
  service_.FailWith(
      {{}, {}, {}, {.status = absl::AbortedError("the last")}, {}});
  ClientContext context;
  const CallOutcome outcome = List(&context, 1);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(outcome.status.message(), HasSubstr("the last"));
  EXPECT_THAT(service_.previous(), SizeIs(4));
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              ElementsAre(Pair("previous", "3")));
  EXPECT_THAT(context.metadata(), IsEmpty());
}

TEST_P(StreamRetriesTest, TrailingMetadataAreThoseOfTheLastAttempt) {
  Connect();
  service_.FailWith({{}, {}});
  ClientContext context;
  EXPECT_EQ(List(&context, 1).status, absl::OkStatus());
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              UnorderedElementsAre(Pair("previous", "2"), Pair("ended", "2")));
}

TEST_P(StreamRetriesTest, OtherStatusesEndTheCall) {
  Connect();
  service_.FailWith({{}, {.status = absl::InternalError("x")}, {}});
  EXPECT_EQ(Record(Items(3)).status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(service_.previous(), SizeIs(2));
}

TEST_P(StreamRetriesTest, AStreamWithoutAPolicyIsNotTriedAgain) {
  ConnectWithOptions();
  service_.FailWith({{.reads = 1}});
  EXPECT_EQ(Record(Items(3)).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
}

// --- What commits a call to its attempt --------------------------------------

TEST_P(StreamRetriesTest, AFirstResponseEndsTheRetries) {
  Connect();
  service_.FailWith({{}, {.writes = 1}});
  const CallOutcome outcome = List(3);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(outcome.items, SizeIs(1));
  EXPECT_THAT(service_.previous(), ElementsAre("", "1"));
}

TEST_P(StreamRetriesTest, InitialMetadataEndTheRetries) {
  Connect();
  service_.FailWith({{}, {.sends_metadata = true}});
  ClientContext context;
  const CallOutcome outcome = List(&context, 3);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(outcome.items, IsEmpty());
  EXPECT_THAT(context.GetServerInitialMetadata(),
              ElementsAre(Pair("begun", "yes")));
  EXPECT_THAT(service_.previous(), ElementsAre("", "1"));
}

// A message has 8 bytes beside its own.
TEST_P(StreamRetriesTest, MoreThanTheBufferHoldsEndsTheRetries) {
  const std::vector<Item> items = Items(4, 100);
  size_t bytes = 0;
  for (const Item& item : items) bytes += item.ByteSizeLong() + 8;
  options_.retry_buffer_bytes = bytes;
  Connect();
  service_.FailWith({{.reads = -1}, {.reads = -1}});
  EXPECT_EQ(Record(items).status, absl::OkStatus());
  EXPECT_THAT(service_.previous(), SizeIs(3));
  options_.retry_buffer_bytes = bytes - 1;
  Connect();
  service_.FailWith({{.reads = -1}, {.reads = -1}});
  EXPECT_EQ(Record(items).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
}

TEST_P(StreamRetriesTest, AttachmentsCountInTheBuffer) {
  options_.retry_buffer_bytes = 100'000;
  Connect();
  service_.FailWith({{.reads = -1}});
  EXPECT_EQ(Record(Items(1), Pattern(90'000, 1)).status, absl::OkStatus());
  service_.FailWith({{.reads = -1}});
  EXPECT_EQ(Record(Items(1), Pattern(110'000, 1)).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(StreamRetriesTest, ABufferOfAnySizeIsAllowed) {
  options_.retry_buffer_bytes = 0;
  Connect();
  service_.FailWith({{}});
  EXPECT_EQ(List(1).status.code(), absl::StatusCode::kUnavailable);
  options_.retry_buffer_bytes = std::numeric_limits<uint64_t>::max();
  Connect();
  service_.FailWith({{.reads = -1}, {.reads = 7}});
  EXPECT_EQ(Record(Items(10, 200'000)).status, absl::OkStatus());
  EXPECT_EQ(service_.seen().back().numbers, NumbersTo(10));
}

TEST_P(StreamRetriesTest, BeyondTheBufferAStreamGoesOn) {
  options_.retry_buffer_bytes = 10'000;
  Connect();
  service_.FailWith({});
  const CallOutcome outcome = Record(Items(100, 5000));
  ASSERT_EQ(outcome.status, absl::OkStatus());
  EXPECT_EQ(outcome.summary.count(), 100u);
  EXPECT_TRUE(service_.seen()[0].intact);
}

// --- Push-back and throttling ------------------------------------------------

TEST_P(StreamRetriesTest, AServerMayForbidFurtherAttempts) {
  Connect();
  for (const char* never : {"-1", "soon"}) {
    service_.PushBack(never);
    service_.FailWith({{.reads = 1}});
    EXPECT_EQ(Record(Items(2)).status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(service_.previous(), SizeIs(1)) << never;
  }
}

TEST_P(StreamRetriesTest, AServerMaySayWhenToComeBack) {
  Connect("3600s");
  service_.PushBack("1");
  service_.FailWith({{.reads = 1}, {}});
  EXPECT_EQ(Record(Items(2)).status, absl::OkStatus());
  EXPECT_THAT(service_.previous(), SizeIs(3));
}

TEST_P(StreamRetriesTest, ManyFailuresStopTheRetries) {
  Connect("0.001s",
          R"(, "retryThrottling": {"maxTokens": 4, "tokenRatio": 1})");
  // The second attempt leaves two tokens, which are not more than half.
  service_.FailWith({{}, {}, {}, {}});
  EXPECT_EQ(List(1).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(2));
  service_.FailWith({});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(List(1).status, absl::OkStatus());
  // A stream that is not tried again takes a token all the same.
  service_.FailWith({{.writes = 1}, {.writes = 1}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(List(1).status.code(), absl::StatusCode::kUnavailable);
  }
  service_.FailWith({{}});
  EXPECT_EQ(List(1).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(service_.previous(), SizeIs(1));
}

// --- Others who see a call ---------------------------------------------------

class Counter final : public ClientInterceptorFactory {
 public:
  std::unique_ptr<ClientInterceptor> CreateClientInterceptor(
      ClientRpcInfo* /*info*/) override {
    return std::make_unique<Interceptor>(this);
  }
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  std::atomic<int> ended{0};

 private:
  class Interceptor final : public ClientInterceptor {
   public:
    explicit Interceptor(Counter* counter) : counter_(*counter) {}
    void OnSendMessage(const google::protobuf::MessageLite&) override {
      ++counter_.sent;
    }
    void OnReceiveMessage(google::protobuf::MessageLite*) override {
      ++counter_.received;
    }
    void OnEnd(absl::Status*) override { ++counter_.ended; }

   private:
    Counter& counter_;
  };
};

TEST_P(StreamRetriesTest, InterceptorsHearOfEachMessageOnce) {
  const auto counter = std::make_shared<Counter>();
  options_.interceptors.push_back(counter);
  Connect();
  service_.FailWith({{.reads = -1}, {.reads = 3}});
  EXPECT_EQ(Record(Items(5)).status, absl::OkStatus());
  EXPECT_EQ(counter->sent, 5);
  EXPECT_EQ(counter->received, 1);
  EXPECT_EQ(counter->ended, 1);
}

// --- Sizes -------------------------------------------------------------------

TEST_P(StreamRetriesTest, TheConfigBoundsEachMessageOfAStream) {
  options_.service_config = R"({"methodConfig": [{"name": [{}],
      "maxRequestMessageBytes": 1000, "maxResponseMessageBytes": 100}]})";
  ConnectWithOptions();
  EXPECT_EQ(Record(Items(10, 900), Pattern(2000, 1)).status, absl::OkStatus());
  std::vector<Item> items = Items(3, 10);
  items.push_back(NewItem(3, 1001));
  CallOutcome outcome = Record(items);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(outcome.status.message(),
              HasSubstr("maxRequestMessageBytes of the service config, 1000"));
  items.back() = NewItem(3, 200'000);
  outcome = Record(items);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted);
  items.back() = NewItem(3, 101);
  outcome = Chat(items);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(outcome.status.message(),
              HasSubstr("maxResponseMessageBytes of the service config, 100"));
  EXPECT_THAT(outcome.items, SizeIs(3));
}

}  // namespace
}  // namespace verbena::end_to_end
