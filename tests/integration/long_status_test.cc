// Status messages that are longer than the frame that ends a call has room for.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/generic_stub.h"
#include "rpc/rpc.h"
#include "rpc/status_details.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::end_to_end {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using transport::FrameType;
using transport::RawListener;
using transport::RawPeer;

constexpr size_t kHead = transport::kMaxStatusMessageBytes;
constexpr size_t kDefault = 8192;
constexpr char kRestKey[] = ":status-message";

// Bytes of the trailing metadata of Fail, and of the pair that carries the rest
// of the message, without its value.
constexpr uint32_t kOthers = 13 + 19;

// Text of which no part is like the next.
std::string Letters(size_t bytes) {
  std::string text = Pattern(bytes, 1);
  for (char& letter : text) letter = static_cast<char>('a' + (letter & 15));
  return text;
}

std::string Euros(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "\xe2\x82\xac";
  return text;
}

class LongStatusTest : public EndToEndTest {
 protected:
  void Serve(const std::function<void(ServerBuilder&)>& change,
             const ChannelOptions& options = ChannelOptions()) {
    StartServer(change);
    Connect(options);
  }
  void Connect(const ChannelOptions& options = ChannelOptions()) {
    if (target().empty()) UseServer();
    channel_ = NewChannel(options);
    stub_ = EndToEnd::NewStub(channel_);
  }

  absl::Status Fail(const std::string& message,
                    const std::string& detail = "") {
    FailRequest request;
    request.set_code(static_cast<int>(absl::StatusCode::kNotFound));
    request.set_message(message);
    request.set_detail(detail);
    Nothing reply;
    return stub_->Fail(&context_, request, &reply);
  }
  // Returns the part of `message` that arrives at the client.
  std::string Arrives(const std::string& message) {
    const absl::Status status = Fail(message);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    // The pair with the rest of the message is hidden from the user.
    EXPECT_THAT(context_.GetServerTrailingMetadata(),
                ElementsAre(Pair("failed", "yes")));
    return std::string(status.message());
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
  ClientContext context_;
};

TEST_F(LongStatusTest, EightKibibytesArriveByDefault) {
  Connect();
  for (const size_t bytes : {size_t{0}, size_t{1}, kHead - 1, kHead, kHead + 1,
                             kHead + 100, 2 * kHead, kDefault - 1, kDefault}) {
    const std::string message = Letters(bytes);
    EXPECT_TRUE(Arrives(message) == message) << bytes;
  }
  for (const size_t bytes : {kDefault + 1, 10 * kDefault}) {
    const std::string message(bytes, 'x');
    EXPECT_TRUE(Arrives(message) == message.substr(0, kDefault)) << bytes;
  }
  EXPECT_TRUE(Arrives(Euros(kDefault + 1)) == Euros(8190));
}

TEST_F(LongStatusTest, TheServerSaysHowMuch) {
  ChannelOptions options;
  options.max_metadata_bytes = 65535;
  const std::string message = Euros(100000);
  for (const size_t most :
       {size_t{0}, size_t{100}, kHead, kHead + 3, size_t{65535}}) {
    Serve(
        [most](ServerBuilder& builder) {
          builder.SetMaxStatusMessageSize(static_cast<int64_t>(most));
        },
        options);
    EXPECT_TRUE(Arrives(message) == message.substr(0, most / 3 * 3)) << most;
    channel_.reset();
    StopServer();
  }
}

TEST_F(LongStatusTest, TheClientSaysHowMuch) {
  for (const uint32_t room : {0u, 1u, 2u, 3u, 4u, 1000u, 6000u}) {
    ChannelOptions options;
    options.max_metadata_bytes = kOthers + room;
    Connect(options);
    const size_t most = kHead + room;
    const std::string message = Letters(kDefault);
    EXPECT_TRUE(Arrives(message) == message.substr(0, most)) << room;
    EXPECT_TRUE(Arrives(Euros(kDefault)) ==
                Euros(kDefault).substr(0, most / 3 * 3))
        << room;
  }
  // These limits leave no room for the pair beside the handler's metadata.
  for (const uint32_t bytes : {13u, kOthers - 1}) {
    ChannelOptions options;
    options.max_metadata_bytes = bytes;
    Connect(options);
    EXPECT_TRUE(Arrives(Euros(kDefault)) == Euros(kDefault).substr(0, 2046));
  }
}

TEST_F(LongStatusTest, DetailsComeWithItAndTakeNoRoomFromIt) {
  Connect();
  for (const size_t bytes : {kHead, kHead + 1, size_t{5000}, size_t{8000}}) {
    const std::string message = Letters(bytes);
    const absl::Status status = Fail(message, "which");
    EXPECT_TRUE(status.message() == message) << bytes;
    const auto key = GetStatusDetail<Key>(status);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(key->key(), "which");
    EXPECT_EQ(context_.GetServerTrailingMetadata().size(), 2u);
  }
  // There is no room for the details beside the message.
  const std::string message = Letters(kDefault);
  EXPECT_TRUE(Arrives(message) == message);
  const absl::Status status = Fail(message, "which");
  EXPECT_TRUE(status.message() == message);
  EXPECT_FALSE(GetStatusDetail<Key>(status).has_value());
}

TEST_F(LongStatusTest, CallsByNameAndByCallbackHearAllOfIt) {
  Connect();
  const absl::Status expected = absl::NotFoundError(Letters(kDefault));
  FailRequest request;
  request.set_code(static_cast<int>(absl::StatusCode::kNotFound));
  request.set_message(std::string(expected.message()));
  Nothing reply;
  absl::Status status;
  Countdown countdown(1);
  stub_->async()->Fail(&context_, &request, &reply, [&](absl::Status ended) {
    status = std::move(ended);
    countdown.Done();
  });
  countdown.Wait();
  EXPECT_EQ(status, expected);

  const GenericStub generic(channel_);
  ByteMessage response;
  EXPECT_EQ(
      generic.UnaryCall(&context_, "verbena.end_to_end.EndToEnd/Fail",
                        ByteMessage(request.SerializeAsString()), &response),
      expected);
  EXPECT_THAT(context_.GetServerTrailingMetadata(),
              ElementsAre(Pair("failed", "yes")));
}

TEST_F(LongStatusTest, ItComesBehindTheMessagesOfAStream) {
  Serve({});
  const absl::Status expected = absl::AbortedError(Letters(kDefault));
  streams().set_chat([&expected](ServerContext* context, auto* stream) {
    context->AddTrailingMetadata("failed", "yes");
    for (uint64_t i = 0; i < 100; ++i) stream->Write(NewItem(i, 1000));
    return expected;
  });
  const auto stub = StreamService::NewStub(channel_);
  const auto chat = stub->Chat(&context_);
  Item item;
  uint64_t count = 0;
  while (chat->Read(&item)) ++count;
  EXPECT_EQ(count, 100u);
  EXPECT_EQ(chat->Finish(), expected);
  EXPECT_THAT(context_.GetServerTrailingMetadata(),
              ElementsAre(Pair("failed", "yes")));
}

TEST_F(LongStatusTest, AHandlerCannotUseTheKey) {
  Serve({});
  const std::string words =
      "the handler added trailing metadata with the key \":status-message\"; "
      "keys that begin with a colon are the library's";
  // Describe() sends metadata of the client back as trailing metadata.
  context_.AddMetadata(kRestKey, "mine");
  context_.AddMetadata("other", "too");
  Description reply;
  EXPECT_EQ(stub_->Describe(&context_, Nothing(), &reply),
            absl::InternalError(
                absl::StrCat("verbena.end_to_end.EndToEnd/Describe: ", words)));
  EXPECT_TRUE(context_.GetServerTrailingMetadata().empty());
  for (const absl::Status& end :
       {absl::OkStatus(), absl::AbortedError(Letters(kDefault))}) {
    streams().set_chat([&end](ServerContext* context, auto*) {
      context->AddTrailingMetadata(kRestKey, "mine");
      return end;
    });
    ClientContext context;
    EXPECT_EQ(StreamService::NewStub(channel_)->Chat(&context)->Finish(),
              absl::InternalError(absl::StrCat(
                  "verbena.end_to_end.StreamService/Chat: ", words)));
  }
}

// --- Servers that do otherwise -----------------------------------------------

std::string PairText(absl::string_view key, absl::string_view value) {
  std::string text;
  for (const size_t bytes : {key.size(), value.size()}) {
    text.push_back(static_cast<char>(bytes & 0xff));
    text.push_back(static_cast<char>(bytes >> 8));
  }
  return absl::StrCat(text, key, value);
}

// Makes a call that a server answers with these parts. Returns the status at
// the client.
absl::Status EndOf(absl::StatusCode code, const std::string& message,
                   const std::string& metadata) {
  const std::unique_ptr<RawListener> listener = *RawListener::Create();
  std::unique_ptr<RawPeer> raw;
  std::thread server([&] {
    absl::StatusOr<std::unique_ptr<RawPeer>> next = listener->Next();
    ASSERT_EQ(next.status(), absl::OkStatus());
    raw = *std::move(next);
    ASSERT_EQ(raw->AcceptAndWelcome(), absl::OkStatus());
    const absl::StatusOr<std::string> request =
        raw->Receive(FrameType::kRequest);
    ASSERT_EQ(request.status(), absl::OkStatus());
    transport::ResponseHeader response = {};
    response.frame = raw->Header(
        FrameType::kResponse,
        transport::HeaderOf<transport::RequestHeader>(*request).frame.call_id);
    response.code = static_cast<uint32_t>(code);
    response.status_message_bytes = static_cast<uint16_t>(message.size());
    response.metadata_bytes = static_cast<uint16_t>(metadata.size());
    EXPECT_EQ(raw->Send(transport::FrameText(response, message + metadata)),
              absl::OkStatus());
  });
  const auto stub = EndToEnd::NewStub(CreateChannel(listener->address()));
  ClientContext context;
  context.set_timeout(absl::Minutes(1));
  Nothing reply;
  const absl::Status status = stub->Fail(&context, FailRequest(), &reply);
  server.join();
  EXPECT_EQ(context.GetServerTrailingMetadata().count(kRestKey), 0u);
  return status;
}

void ExpectInternal(const absl::Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("EndToEnd/Fail: " + words));
}

TEST(LongStatusOfARawServerTest, IsPutTogether) {
  const std::string head(kHead, 'h');
  EXPECT_EQ(EndOf(absl::StatusCode::kAborted, head, PairText(kRestKey, "rest")),
            absl::AbortedError(head + "rest"));
}

TEST(LongStatusOfARawServerTest, MustNotBeCutWhereThereIsRoom) {
  ExpectInternal(
      EndOf(absl::StatusCode::kAborted, "short", PairText(kRestKey, "rest")),
      "the server sent the rest of a status message (4 bytes) after only 5 "
      "bytes of it; the first part must have 2048");
  ExpectInternal(EndOf(absl::StatusCode::kOk, "", PairText(kRestKey, "rest")),
                 "the server sent the rest of a status message (4 bytes) after "
                 "only 0 bytes of it; the first part must have 2048");
}

TEST(LongStatusOfARawServerTest, MustNotHaveTwoRests) {
  ExpectInternal(EndOf(absl::StatusCode::kAborted, std::string(kHead, 'h'),
                       PairText(kRestKey, "a") + PairText(kRestKey, "b")),
                 "the server sent the rest of its status message twice");
}

TEST(LongStatusOfARawServerTest, MustBeWhole) {
  const std::string pair = PairText(kRestKey, "rest");
  ExpectInternal(
      EndOf(absl::StatusCode::kAborted, std::string(kHead, 'h'),
            pair.substr(0, pair.size() - 1)),
      "a metadata pair of 15 + 4 bytes does not fit: only 18 bytes are "
      "left");
}

}  // namespace
}  // namespace verbena::end_to_end
