// Metadata before the messages of a stream and behind them, and how many
// streams there may be.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/status_details.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using StreamingMetadataTest = StreamingTest;

TEST_F(StreamingMetadataTest, LongMetadataGoBothWays) {
  Serve();
  streams().set_chat([](ServerContext* context, auto* stream) {
    for (const auto& [key, value] : context->client_metadata()) {
      context->AddInitialMetadata(key, value);
      context->AddTrailingMetadata(key, value);
    }
    Item item;
    while (stream->Read(&item)) stream->Write(item);
    return absl::OkStatus();
  });
  ClientContext context;
  context.AddMetadata("token", Pattern(8000, 1));
  const auto stream = stub_->Chat(&context);
  EXPECT_TRUE(Echoes(*stream, NewItem(1, 100)));
  EXPECT_EQ(context.GetServerInitialMetadata(), context.metadata());
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
}

TEST_F(StreamingMetadataTest, CapitalsOfKeysBecomeLowerCaseOnBothSides) {
  Serve();
  streams().set_list([](ServerContext* context, auto*) {
    EXPECT_THAT(context->client_metadata(),
                ElementsAre(Pair("x-request-id", "One")));
    context->AddInitialMetadata("Session", "Two");
    context->AddTrailingMetadata("Load", "Three");
    return absl::OkStatus();
  });
  ClientContext context;
  context.AddMetadata("X-Request-ID", "One");
  EXPECT_EQ(stub_->List(&context, ListRequest())->Finish(), absl::OkStatus());
  EXPECT_THAT(context.GetServerInitialMetadata(),
              ElementsAre(Pair("session", "Two")));
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              ElementsAre(Pair("load", "Three")));
}

// The handler waits for the client, which waits for them.
TEST_F(StreamingMetadataTest, InitialMetadataCanBeWaitedFor) {
  Serve();
  streams().set_chat([](ServerContext* context, auto* stream) {
    context->AddInitialMetadata("session", "7");
    context->SendInitialMetadata();
    context->AddInitialMetadata("late", "8");
    Item item;
    while (stream->Read(&item)) stream->Write(item);
    return absl::OkStatus();
  });
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  stream->WaitForInitialMetadata();
  EXPECT_THAT(context.GetServerInitialMetadata(),
              ElementsAre(Pair("session", "7")));
  stream->WaitForInitialMetadata();
  EXPECT_TRUE(Echoes(*stream, NewItem(1, 100)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

TEST_F(StreamingMetadataTest, EmptyInitialMetadataCanBeWaitedForToo) {
  Serve();
  streams().set_record([](ServerContext* context, auto* reader) {
    context->SendInitialMetadata();
    context->SendInitialMetadata();
    Item item;
    while (reader->Read(&item)) {
    }
    return absl::OkStatus();
  });
  ClientContext context;
  Summary summary;
  const auto writer = stub_->Record(&context, &summary);
  writer->WaitForInitialMetadata();
  EXPECT_TRUE(writer->Write(NewItem(1)));
  EXPECT_EQ(writer->Finish(), absl::OkStatus());
  EXPECT_TRUE(context.GetServerInitialMetadata().empty());
}

TEST_F(StreamingMetadataTest, NobodyWaitsForInitialMetadataThatDoNotCome) {
  Serve();
  // A message says so.
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  EXPECT_TRUE(stream->Write(NewItem(5)));
  stream->WaitForInitialMetadata();
  Item item;
  EXPECT_TRUE(stream->Read(&item));
  EXPECT_EQ(item.number(), 5u);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
  // The end does.
  streams().set_list([](ServerContext*, auto*) {
    return absl::NotFoundError("there is nothing");
  });
  ClientContext other;
  const auto reader = stub_->List(&other, ListRequest());
  reader->WaitForInitialMetadata();
  EXPECT_EQ(reader->Finish(), absl::NotFoundError("there is nothing"));
  // And so does the client itself.
  ClientContext cancelled;
  const auto third = stub_->Chat(&cancelled);
  cancelled.TryCancel();
  third->WaitForInitialMetadata();
  EXPECT_EQ(third->Finish().code(), absl::StatusCode::kCancelled);
}

TEST_F(StreamingMetadataTest, InitialMetadataComeBeforeTheMessages) {
  Serve();
  streams().set_list([](ServerContext* context, auto* writer) {
    context->AddInitialMetadata("all", Pattern(8000, 1));
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_TRUE(writer->Write(NewItem(i, 100)));
    }
    return absl::OkStatus();
  });
  for (int i = 0; i < 20; ++i) {
    ClientContext context;
    const auto reader = stub_->List(&context, ListRequest());
    Item item;
    ASSERT_TRUE(reader->Read(&item));
    EXPECT_EQ(item.number(), 0u);
    EXPECT_THAT(context.GetServerInitialMetadata(),
                ElementsAre(Pair("all", Pattern(8000, 1))));
    uint64_t count = 1;
    while (reader->Read(&item)) ++count;
    EXPECT_EQ(count, 1000u);
    EXPECT_EQ(reader->Finish(), absl::OkStatus());
  }
}

TEST_F(StreamingMetadataTest, InitialMetadataComeWithAnErrorToo) {
  Serve();
  streams().set_list([](ServerContext* context, auto*) {
    context->AddInitialMetadata("seen", "yes");
    absl::Status status = absl::OutOfRangeError("beyond the end");
    AddStatusDetail(&status, NewItem(17));
    return status;
  });
  ClientContext context;
  const auto reader = stub_->List(&context, ListRequest());
  Item item;
  EXPECT_FALSE(reader->Read(&item));
  const absl::Status status = reader->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  const auto detail = GetStatusDetail<Item>(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->number(), 17u);
  EXPECT_THAT(context.GetServerInitialMetadata(),
              ElementsAre(Pair("seen", "yes")));
}

// --- How many ----------------------------------------------------------------

TEST_F(StreamingMetadataTest, AConnectionHasAsManyStreamsAsItsOptionsSay) {
  constexpr int kStreams = 300;
  ChannelOptions options;
  options.max_concurrent_calls = kStreams;
  Serve(
      [](ServerBuilder& builder) {
        builder.SetMaxConcurrentCallsPerConnection(10000).SetMaxWorkerThreads(
            400);
      },
      options);
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::vector<std::unique_ptr<ChatStream>> open;
  for (int i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<ClientContext>());
    open.push_back(stub_->Chat(contexts.back().get()));
    ASSERT_TRUE(Echoes(*open.back(), NewItem(1, 10))) << i;
  }
  for (const auto& stream : open) {
    EXPECT_TRUE(Echoes(*stream, NewItem(2, 10)));
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
}

TEST_F(StreamingMetadataTest, StreamsBeyondTheServersLimitAreRefused) {
  Serve([](ServerBuilder& builder) { builder.SetMaxConcurrentCalls(1); });
  {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    EXPECT_TRUE(Echoes(*stream, NewItem(1)));
    ClientContext second;
    const absl::Status status = stub_->Chat(&second)->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the server has 1 calls in progress"));
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
  ClientContext context;
  const auto stream = stub_->Chat(&context);
  EXPECT_TRUE(Echoes(*stream, NewItem(1)));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_EQ(stream->Finish(), absl::OkStatus());
}

}  // namespace
}  // namespace verbena::end_to_end
