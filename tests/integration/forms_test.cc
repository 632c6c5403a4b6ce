// Tests of calls between clients and servers of each form.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"

namespace verbena::end_to_end {
namespace {

std::vector<Item> NewItems(size_t count, size_t payload_bytes) {
  std::vector<Item> items;
  for (size_t i = 0; i < count; ++i) items.push_back(NewItem(i, payload_bytes));
  return items;
}

class EachFormTest : public FormsTest,
                     public ::testing::WithParamInterface<FormOfBoth> {
 protected:
  void SetUp() override {
    Serve(std::get<1>(GetParam()));
    client_ = FormClient::New(std::get<0>(GetParam()), channel_);
  }

  std::unique_ptr<FormClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Forms, EachFormTest, EachFormOfBoth(), NameOfBoth);

TEST_P(EachFormTest, UnaryCallsOfAllSizesComeBack) {
  for (const size_t bytes : {0, 1, 100, 8000, 20000, 300000, 2 << 20}) {
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
    request.set_payload(Pattern(bytes, bytes));
    const std::string attachment = Pattern(bytes / 2, 7);
    context.set_request_attachment(Bytes(attachment));
    ASSERT_EQ(client_->Echo(&context, request, &reply), absl::OkStatus());
    EXPECT_EQ(reply.payload(), request.payload()) << bytes;
    EXPECT_EQ(context.response_attachment(), Bytes(attachment)) << bytes;
  }
}

TEST_P(EachFormTest, AServerStreamsMessagesOfAllNumbersAndSizes) {
  for (const auto& [count, bytes] : std::vector<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {2, 10}, {3000, 100}, {20, 100000}, {3, 3 << 20}}) {
    ClientContext context;
    ListRequest request;
    request.set_count(count);
    request.set_payload_bytes(bytes);
    request.set_attachment_bytes(bytes / 3);
    const CallOutcome outcome = client_->List(&context, request);
    ASSERT_EQ(outcome.status, absl::OkStatus());
    ASSERT_EQ(outcome.items.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(outcome.items[i].number(), i);
      ASSERT_EQ(outcome.items[i].payload(), Pattern(bytes, i));
      ASSERT_EQ(outcome.attachments[i], Pattern(bytes / 3, i));
    }
  }
}

TEST_P(EachFormTest, AClientStreamsMessagesOfAllNumbersAndSizes) {
  for (const auto& [count, bytes] : std::vector<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {2, 10}, {3000, 100}, {20, 100000}, {3, 3 << 20}}) {
    ClientContext context;
    const CallOutcome outcome = client_->Record(
        &context, NewItems(count, bytes), Pattern(bytes / 3, 1));
    ASSERT_EQ(outcome.status, absl::OkStatus());
    EXPECT_EQ(outcome.summary.count(), count);
    EXPECT_EQ(outcome.summary.in_order(), count > 0);
    EXPECT_EQ(outcome.summary.payload_bytes(), count * bytes);
    EXPECT_EQ(outcome.summary.attachment_bytes(), count * (bytes / 3));
  }
}

TEST_P(EachFormTest, QuestionsAndAnswersTakeTurns) {
  for (const auto& [count, bytes] : std::vector<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {1000, 64}, {10, 100000}, {3, 2 << 20}}) {
    ClientContext context;
    std::vector<Item> items = NewItems(count, bytes);
    for (Item& item : items) item.set_number(item.number() + 100);
    const CallOutcome outcome =
        client_->Chat(&context, items, Pattern(bytes / 3, 1));
    ASSERT_EQ(outcome.status, absl::OkStatus());
    ASSERT_EQ(outcome.items.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(outcome.items[i].number(), items[i].number());
      ASSERT_EQ(outcome.items[i].payload(), items[i].payload());
      ASSERT_EQ(outcome.attachments[i], Pattern(bytes / 3, 1));
    }
  }
}

TEST_P(EachFormTest, TheHandlersStatusEndsTheCall) {
  ClientContext context;
  const CallOutcome outcome =
      client_->Chat(&context, NewItems(20, 64), /*attachment=*/"");
  EXPECT_EQ(outcome.status, absl::AbortedError("unlucky"));
  EXPECT_EQ(outcome.items.size(), 13u);
}

TEST_P(EachFormTest, AMessageThatIsTooLongEndsTheCallAndNoOther) {
  ChannelOptions options;
  options.max_send_message_bytes = 10000;
  Serve(std::get<1>(GetParam()), options);
  client_ = FormClient::New(std::get<0>(GetParam()), channel_);
  ClientContext context;
  std::vector<Item> items = NewItems(3, 100);
  items[1].set_payload(Pattern(20000, 1));
  const CallOutcome outcome = client_->Chat(&context, items, "");
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted)
      << outcome.status;
  EXPECT_EQ(outcome.items.size(), 1u);
  ClientContext second;
  EXPECT_EQ(client_->Chat(&second, NewItems(3, 100), "").status,
            absl::OkStatus());
}

TEST_P(EachFormTest, AStreamThatHasEndedLeavesTheLimitOfStreams) {
  server_.reset();
  FormServices services(std::get<1>(GetParam()));
  ServerBuilder builder;
  services.Register(&builder);
  builder.SetMaxConcurrentStreams(1).SetMaxConcurrentStreamsPerConnection(1);
  Start(&builder, ChannelOptions());
  client_ = FormClient::New(std::get<0>(GetParam()), channel_);
  for (int i = 0; i < 10; ++i) {
    ClientContext context;
    EXPECT_EQ(client_->Chat(&context, NewItems(3, 10), "").status,
              absl::OkStatus());
    EXPECT_EQ(client_->Chat(&context, NewItems(20, 10), "").status,
              absl::AbortedError("unlucky"));
  }
  server_.reset();
}

TEST_P(EachFormTest, ACallThatWasCancelledBeforeItBeganEndsSo) {
  ClientContext context;
  context.TryCancel();
  EXPECT_EQ(client_->Chat(&context, NewItems(3, 10), "").status.code(),
            absl::StatusCode::kCancelled);
  EchoReply reply;
  ClientContext second;
  second.TryCancel();
  EXPECT_EQ(client_->Echo(&second, EchoRequest(), &reply).code(),
            absl::StatusCode::kCancelled);
}

TEST_P(EachFormTest, NobodyListensAndTheCallEnds) {
  server_.reset();
  for (int kind = 0; kind < 4; ++kind) {
    ClientContext context;
    context.set_timeout(absl::Seconds(20));
    EchoReply reply;
    const absl::Status status =
        kind == 0   ? client_->Echo(&context, EchoRequest(), &reply)
        : kind == 1 ? client_->List(&context, ListRequest()).status
        : kind == 2 ? client_->Record(&context, NewItems(3, 10), "").status
                    : client_->Chat(&context, NewItems(3, 10), "").status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
}

}  // namespace
}  // namespace verbena::end_to_end
