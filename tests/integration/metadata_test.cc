// Tests of metadata of unary calls, before and behind the reply, and of the
// details of a status.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "rpc/status_details.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A pair of this key and so many bytes takes 5 bytes more.
const char kKey[] = "k";
constexpr size_t kDefaultLimit = 8192;

class MetadataTest : public EndToEndTest {
 protected:
  void Serve(const std::function<void(ServerBuilder&)>& change = {},
             const ChannelOptions& options = ChannelOptions()) {
    StartServer(change);
    Connect(options);
  }
  void Connect(const ChannelOptions& options = ChannelOptions()) {
    if (target().empty()) UseServer();
    channel_ = NewChannel(options);
    stub_ = EndToEnd::NewStub(channel_);
    inline_stub_ = Inline::NewStub(channel_);
  }

  // A call that has its metadata sent back, by a handler on the poller or not.
  absl::Status Describe(ClientContext* context, bool on_poller = false) {
    return on_poller ? inline_stub_->Describe(context, Nothing(), &reply_)
                     : stub_->Describe(context, Nothing(), &reply_);
  }
  absl::Status Fail(ClientContext* context, const std::string& detail) {
    FailRequest request;
    request.set_code(static_cast<int>(absl::StatusCode::kNotFound));
    request.set_message("no such key");
    request.set_detail(detail);
    Nothing nothing;
    return stub_->Fail(context, request, &nothing);
  }

  static void ExpectExhausted(const absl::Status& status,
                              const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
  std::unique_ptr<Inline::Stub> inline_stub_;
  Description reply_;
};

// --- How much ----------------------------------------------------------------

TEST_F(MetadataTest, EightKibibytesGoEachWayByDefault) {
  Connect();
  for (const size_t bytes : {2043, 2044, 8000, 8187}) {
    for (const bool on_poller : {false, true}) {
      ClientContext context;
      context.AddMetadata(kKey, Pattern(bytes, 1));
      ASSERT_EQ(Describe(&context, on_poller), absl::OkStatus()) << bytes;
      EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
      EXPECT_TRUE(context.GetServerInitialMetadata().empty());
    }
  }
}

TEST_F(MetadataTest, BinaryValuesAndKeysThatRepeatComeInOrderHoweverMany) {
  Connect();
  for (const size_t bytes : {10, 600}) {
    ClientContext context;
    for (int i = 9; i >= 0; --i) {
      context.AddMetadata("data-bin", absl::StrCat(i, Pattern(bytes, i)));
      context.AddMetadata("ahead-bin", absl::StrCat(i));
    }
    context.AddMetadata("zero-bin", std::string("\0\xff\0", 3));
    context.AddMetadata("", "");
    ASSERT_EQ(Describe(&context), absl::OkStatus());
    Metadata trailing = context.metadata();
    trailing.erase("ahead-bin");
    EXPECT_EQ(context.GetServerTrailingMetadata(), trailing);
    EXPECT_EQ(context.GetServerInitialMetadata().size(), 10u);
    int next = 9;
    for (const auto& [key, value] : context.GetServerInitialMetadata()) {
      EXPECT_EQ(value, absl::StrCat(next--));
    }
  }
}

TEST_F(MetadataTest, MoreThanTheServerTakesIsRefusedInWords) {
  Serve([](ServerBuilder& builder) { builder.SetMaxMetadataSize(3000); });
  ClientContext context;
  context.AddMetadata(kKey, std::string(2995, 'v'));
  EXPECT_EQ(Describe(&context), absl::OkStatus());
  context.AddMetadata(kKey, "");
  ExpectExhausted(
      Describe(&context),
      absl::StrCat("verbena.end_to_end.EndToEnd/Describe: metadata of 3005 "
                   "bytes is larger than the limit of the server ",
                   target(), " (SetMaxMetadataSize there), 3000"));
}

TEST_F(MetadataTest, MoreThanTheClientTakesIsRefusedInWords) {
  ChannelOptions options;
  options.max_metadata_bytes = 3000;
  Serve({}, options);
  for (const bool on_poller : {false, true}) {
    ClientContext context;
    context.AddMetadata(kKey, std::string(2996, 'v'));
    ExpectExhausted(Describe(&context, on_poller),
                    "/Describe: trailing metadata of 3001 bytes are larger "
                    "than the client's max_metadata_bytes, 3000");
    EXPECT_TRUE(context.GetServerTrailingMetadata().empty());
    for (const char* key : {"ahead", "ahead-now"}) {
      ClientContext ahead;
      ahead.AddMetadata(key, std::string(3001, 'v'));
      ExpectExhausted(Describe(&ahead, on_poller),
                      "/Describe: initial metadata of 30");
      EXPECT_TRUE(ahead.GetServerInitialMetadata().empty());
    }
  }
  ClientContext context;
  EXPECT_EQ(Describe(&context), absl::OkStatus());
}

TEST_F(MetadataTest, MoreThanAnybodyTakesIsRefusedInWords) {
  ChannelOptions options;
  options.max_metadata_bytes = 65535;
  Serve([](ServerBuilder& builder) { builder.SetMaxMetadataSize(65535); },
        options);
  ClientContext context;
  context.AddMetadata(kKey, Pattern(65530, 1));
  ASSERT_EQ(Describe(&context), absl::OkStatus());
  EXPECT_EQ(context.GetServerTrailingMetadata(), context.metadata());
  context.AddMetadata(kKey, "");
  ExpectExhausted(Describe(&context),
                  "metadata of 65540 bytes are larger than the largest value "
                  "of max_metadata_bytes and SetMaxMetadataSize, 65535");
}

// --- Initial metadata --------------------------------------------------------

TEST_F(MetadataTest, InitialMetadataComeWithEachKindOfAnswer) {
  Connect();
  for (const bool on_poller : {false, true}) {
    for (const char* key : {"ahead", "ahead-now"}) {
      for (const size_t bytes : {0, 100, 8000}) {
        ClientContext context;
        const std::string value = Pattern(bytes, 1);
        context.AddMetadata(key, value);
        context.AddMetadata("behind", "too");
        ASSERT_EQ(Describe(&context, on_poller), absl::OkStatus());
        EXPECT_THAT(context.GetServerInitialMetadata(),
                    ElementsAre(Pair(key, value)));
        EXPECT_THAT(context.GetServerTrailingMetadata(),
                    ElementsAre(Pair("behind", "too")));
        // The next call of the context forgets them.
        Nothing nothing;
        Key release;
        release.set_key("nobody waits");
        ASSERT_EQ(stub_->Release(&context, release, &nothing),
                  absl::OkStatus());
        EXPECT_TRUE(context.GetServerInitialMetadata().empty());
      }
    }
  }
}

TEST_F(MetadataTest, OnlyTheFirstInitialMetadataAreSent) {
  Connect();
  ClientContext context;
  context.AddMetadata("ahead-a", "first");
  context.AddMetadata("ahead-now", "second");
  context.AddMetadata("ahead-too-late", "third");
  ASSERT_EQ(Describe(&context), absl::OkStatus());
  EXPECT_THAT(
      context.GetServerInitialMetadata(),
      ElementsAre(Pair("ahead-a", "first"), Pair("ahead-now", "second")));
}

// --- Details of a status -----------------------------------------------------

TEST_F(MetadataTest, DetailsOfAStatusArriveAsTheyWere) {
  Connect();
  for (const size_t bytes : {1, 1000, 8000}) {
    const std::string detail(bytes, 'd');
    ClientContext context;
    const absl::Status status = Fail(&context, detail);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(status.message(), "no such key");
    const auto key = GetStatusDetail<Key>(status);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(key->key(), detail);
    EXPECT_FALSE(GetStatusDetail<Outcome>(status).has_value());
    // The details are in the trailing metadata, too, as in gRPC.
    const Metadata& trailing = context.GetServerTrailingMetadata();
    EXPECT_EQ(trailing.count("failed"), 1u);
    ASSERT_EQ(trailing.count(kStatusDetailsKey), 1u);
    absl::Status read;
    ASSERT_EQ(
        FromGoogleRpcStatus(trailing.find(kStatusDetailsKey)->second, &read),
        absl::OkStatus());
    EXPECT_EQ(read, status);
  }
}

TEST_F(MetadataTest, AStatusWhoseDetailsAreTooLongArrivesWithout) {
  Connect();
  ClientContext context;
  const absl::Status status = Fail(&context, std::string(kDefaultLimit, 'd'));
  EXPECT_EQ(status, absl::NotFoundError("no such key"));
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              ElementsAre(Pair("failed", "yes")));
}

// --- How many calls ----------------------------------------------------------

TEST_F(MetadataTest, CallsBeyondTheServersLimitAreRefusedInWords) {
  Serve([](ServerBuilder& builder) { builder.SetMaxConcurrentCalls(2); });
  {
    const auto first = Block(stub_.get(), "first");
    service().AwaitBlocked("first");
    const auto second = Block(stub_.get(), "second");
    service().AwaitBlocked("second");
    for (const bool on_poller : {false, true}) {
      ClientContext context;
      ExpectExhausted(Describe(&context, on_poller),
                      "the server has 2 calls in progress, which is its limit "
                      "(ServerBuilder::SetMaxConcurrentCalls); this call was "
                      "not processed");
    }
    service().Release("first");
    service().Release("second");
    first->thread.join();
    second->thread.join();
    EXPECT_EQ(first->status, absl::OkStatus());
    EXPECT_EQ(second->status, absl::OkStatus());
  }
  // Whatever way they ended, none is counted any more.
  for (int i = 0; i < 10; ++i) {
    ClientContext context;
    EXPECT_EQ(Describe(&context, i % 2 == 0), absl::OkStatus());
    ClientContext failing;
    EXPECT_EQ(Fail(&failing, "").code(), absl::StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace verbena::end_to_end
