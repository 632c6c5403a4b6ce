// Attachments of every size, in both directions, whatever becomes of the calls
// and of the channels that they came from.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rpc/buffer.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/limits.h"

namespace verbena::end_to_end {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

bool Same(absl::Span<const uint8_t> bytes, const std::string& text) {
  return bytes == Bytes(text);
}

// A Buffer of the channel that holds `text`.
Buffer Filled(const Channel& channel, const std::string& text) {
  Buffer buffer = channel.AllocateBuffer(text.size());
  std::copy(text.begin(), text.end(), buffer.data());
  return buffer;
}

class AttachmentTest : public EndToEndTest {
 protected:
  AttachmentTest() {
    UseServer();
    channel_ = NewChannel();
    EXPECT_TRUE(channel_->WaitForConnected(absl::Now() + absl::Seconds(30)));
    stub_ = EndToEnd::NewStub(channel_);
  }

  // Echoes from memory of the channel, from any memory, and from a Buffer that
  // has nothing to do with the channel.
  template <typename Stub>
  void ExpectEchoes(Stub& stub, size_t payload, size_t attachment) {
    const std::string text = Pattern(attachment, attachment + 1);
    EchoRequest request;
    request.set_payload(Pattern(payload, payload));
    for (const char* source : {"channel", "bytes", "plain"}) {
      ClientContext context;
      EchoReply reply;
      if (source == std::string("channel")) {
        context.set_request_attachment(Filled(*channel_, text));
      } else if (source == std::string("bytes")) {
        context.set_request_attachment(Bytes(text));
      } else {
        Buffer plain = Buffer::Plain(text.size());
        std::copy(text.begin(), text.end(), plain.data());
        context.set_request_attachment(std::move(plain));
      }
      ASSERT_EQ(stub.Echo(&context, request, &reply), absl::OkStatus());
      EXPECT_TRUE(reply.payload() == request.payload()) << source;
      EXPECT_TRUE(Same(context.response_attachment(), text))
          << attachment << " bytes beside " << payload << " from " << source;
    }
  }

  std::shared_ptr<Channel> channel_;
  std::unique_ptr<EndToEnd::Stub> stub_;
};

// If one side wants checksums, both sides have them.
TEST_F(AttachmentTest, EchoedWithChecksums) {
  for (const bool server_wants : {false, true}) {
    StartServer([server_wants](ServerBuilder& builder) {
      builder.SetChecksum(server_wants);
    });
    ChannelOptions options;
    options.checksum = !server_wants;
    channel_ = NewChannel(options);
    EndToEnd::Stub stub(channel_);
    for (const size_t bytes : {size_t{0}, size_t{100}, size_t{10000},
                               size_t{300000}, size_t{3000000}}) {
      ExpectEchoes(stub, bytes, 10);
      ExpectEchoes(stub, 10, bytes);
    }
  }
}

TEST_F(AttachmentTest, EchoedAtEverySize) {
  for (const size_t bytes :
       {0, 1, 63, 64, 65, 220, 4096, 8000, 65536, 1 << 20, 5 << 20}) {
    ExpectEchoes(*stub_, 10, bytes);
  }
}

TEST_F(AttachmentTest, EchoedAroundTheSlot) {
  for (const size_t header : {64, 32, 0}) {
    for (size_t less = 0; less < 16; less += 3) {
      ExpectEchoes(*stub_, 0, transport::kBufferBytes - header - less + 2);
      ExpectEchoes(*stub_, 100, transport::kBufferBytes - header - less - 100);
    }
  }
}

TEST_F(AttachmentTest, EchoedBesideLargeMessages) {
  for (const size_t payload : {8100, 100000, 2 << 20}) {
    for (const size_t bytes : {0, 1, 5000, 9000, 1 << 20}) {
      ExpectEchoes(*stub_, payload, bytes);
    }
  }
}

TEST_F(AttachmentTest, EchoedByHandlersOnThePoller) {
  const auto stub = Inline::NewStub(channel_);
  for (const size_t bytes : {0, 1, 8000, 8192, 65536, 3 << 20}) {
    ExpectEchoes(*stub, 10, bytes);
    ExpectEchoes(*stub, 20000, bytes);
  }
}

TEST_F(AttachmentTest, LargerThanTheFirstArenaAndAllThatMayBeSent) {
  ExpectEchoes(*stub_, 0, (size_t{64} << 20) - 1);
  ClientContext context;
  EchoReply reply;
  context.set_request_attachment(channel_->AllocateBuffer(size_t{66} << 20));
  EXPECT_EQ(stub_->Echo(&context, EchoRequest(), &reply).code(),
            absl::StatusCode::kResourceExhausted);
}

// The client has no idea of the reply's size, then has learned it, or is told.
TEST_F(AttachmentTest, OfRepliesAlone) {
  for (const size_t bytes : {1, 8150, 8192, 100000, 100000, 2 << 20, 10}) {
    for (const uint64_t hint : {0, 2 << 20}) {
      ClientContext context;
      context.set_reply_size_hint(hint);
      EchoRequest request;
      EchoReply reply;
      request.set_reply_attachment_bytes(bytes);
      ASSERT_EQ(stub_->Echo(&context, request, &reply), absl::OkStatus());
      EXPECT_TRUE(
          Same(context.response_attachment(), Pattern(bytes, kReplySeed)))
          << bytes;
    }
  }
}

TEST_F(AttachmentTest, AreKeptByTheContextAndSentAgain) {
  const std::string text = Pattern(100000, 5);
  ClientContext context;
  context.set_request_attachment(Filled(*channel_, text));
  for (int i = 0; i < 5; ++i) {
    EchoReply reply;
    ASSERT_EQ(stub_->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
    EXPECT_TRUE(Same(context.response_attachment(), text));
  }
  EXPECT_EQ(context.TakeRequestAttachment().size(), text.size());
  EchoReply reply;
  ASSERT_EQ(stub_->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
  EXPECT_TRUE(context.response_attachment().empty());
}

TEST_F(AttachmentTest, AreNotThereWhenTheCallFails) {
  ClientContext context;
  context.set_request_attachment(Filled(*channel_, Pattern(100000, 1)));
  EchoReply echo;
  ASSERT_EQ(stub_->Echo(&context, EchoRequest(), &echo), absl::OkStatus());
  FailRequest request;
  request.set_code(static_cast<int>(absl::StatusCode::kAborted));
  Nothing reply;
  EXPECT_EQ(stub_->Fail(&context, request, &reply).code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(context.response_attachment().empty());
}

TEST_F(AttachmentTest, GoFromCallToCallWithoutACopy) {
  const std::string text = Pattern(300000, 9);
  ClientContext context;
  context.set_request_attachment(Filled(*channel_, text));
  for (int i = 0; i < 10; ++i) {
    EchoReply reply;
    ASSERT_EQ(stub_->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
    context.set_request_attachment(context.TakeResponseAttachment());
  }
  EXPECT_TRUE(Same(context.request_attachment(), text));
}

// Makes asynchronous echoes, each from the callback of the one before.
class AsyncAttachment {
 public:
  AsyncAttachment(EndToEnd::Stub* stub, const Channel& channel, size_t bytes,
                  size_t seed)
      : stub_(stub), text_(Pattern(bytes, seed)) {
    context_.set_request_attachment(Filled(channel, text_));
  }

  void Start(int calls, Countdown* countdown) {
    stub_->async()->Echo(
        &context_, &request_, &reply_,
        [this, calls, countdown](const absl::Status& status) {
          if (!status.ok() || !Same(context_.response_attachment(), text_)) {
            problem_ = status.ToString() + ": another attachment";
          }
          if (calls == 1 || !problem_.empty()) return countdown->Done();
          Start(calls - 1, countdown);
        });
  }
  const std::string& problem() const { return problem_; }

 private:
  EndToEnd::Stub* const stub_;
  const std::string text_;
  ClientContext context_;
  EchoRequest request_;
  EchoReply reply_;
  std::string problem_;
};

TEST_F(AttachmentTest, ManyAtOnce) {
  std::deque<AsyncAttachment> calls;
  constexpr int kChains = 48;
  Countdown countdown(kChains);
  for (size_t i = 0; i < kChains; ++i) {
    calls.emplace_back(stub_.get(), *channel_, i * i * 300, i);
  }
  for (AsyncAttachment& call : calls) call.Start(10, &countdown);
  countdown.Wait();
  for (const AsyncAttachment& call : calls) EXPECT_EQ(call.problem(), "");
}

TEST_F(AttachmentTest, FromManyThreadsOfOneChannel) {
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 6; ++thread) {
    threads.emplace_back([this, thread] {
      for (size_t i = 0; i < 20; ++i) {
        const std::string text = Pattern(5000 * i + thread, thread + i);
        ClientContext context;
        EchoReply reply;
        context.set_request_attachment(Filled(*channel_, text));
        EXPECT_EQ(stub_->Echo(&context, EchoRequest(), &reply),
                  absl::OkStatus());
        EXPECT_TRUE(Same(context.response_attachment(), text));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The server may read what a call has sent until it answers, whatever the
// caller does.
TEST_F(AttachmentTest, OfCallsThatTimeOut) {
  for (int i = 0; i < 10; ++i) {
    ClientContext context;
    context.set_timeout(absl::Microseconds(200 * i));
    context.set_request_attachment(
        Filled(*channel_, Pattern(size_t{4} << 20, 1)));
    EchoReply reply;
    const absl::Status status = stub_->Echo(&context, EchoRequest(), &reply);
    EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
  }
  ExpectEchoes(*stub_, 10, 1 << 20);
}

TEST_F(AttachmentTest, OfCallsThatAreCancelled) {
  for (int i = 0; i < 10; ++i) {
    ClientContext context;
    context.set_request_attachment(
        Filled(*channel_, Pattern(size_t{2} << 20, 1)));
    EchoReply reply;
    EchoRequest request;
    Countdown countdown(1);
    absl::Status status;
    stub_->async()->Echo(&context, &request, &reply,
                         [&](const absl::Status& end) {
                           status = end;
                           countdown.Done();
                         });
    context.TryCancel();
    countdown.Wait();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  ExpectEchoes(*stub_, 10, 1 << 20);
}

TEST_F(AttachmentTest, OutliveTheirChannel) {
  const std::string text = Pattern(200000, 3);
  Buffer kept;
  Buffer shared;
  {
    const std::shared_ptr<Channel> other = NewChannel();
    const auto stub = EndToEnd::NewStub(other);
    ASSERT_TRUE(other->WaitForConnected(absl::Now() + absl::Seconds(30)));
    ClientContext context;
    EchoReply reply;
    shared = Filled(*other, text);
    context.set_request_attachment(shared.Share());
    ASSERT_EQ(stub->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
    kept = context.TakeResponseAttachment();
  }
  EXPECT_TRUE(Same(kept.span(), text));
  EXPECT_TRUE(Same(shared.span(), text));
  ClientContext context;
  EchoReply reply;
  context.set_request_attachment(std::move(kept));
  ASSERT_EQ(stub_->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
  EXPECT_TRUE(Same(context.response_attachment(), text));
}

TEST(AttachmentOfNoConnectionTest, IsPlainMemory) {
  const std::shared_ptr<Channel> channel = CreateChannel("127.0.0.1:1");
  EXPECT_EQ(channel->AllocateBuffer(1000).size(), 1000u);
  EXPECT_TRUE(channel->AllocateBuffer(0).empty());
}

class AttachmentAndServerTest : public EndToEndTest {};

TEST_F(AttachmentAndServerTest, BuffersSurviveTheLossOfTheConnection) {
  StartServer();
  const std::shared_ptr<Channel> channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  ASSERT_TRUE(channel->WaitForConnected(absl::Now() + absl::Seconds(30)));
  const std::string text = Pattern(200000, 3);
  ClientContext context;
  EchoReply reply;
  context.set_request_attachment(Filled(*channel, text));
  ASSERT_EQ(stub->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
  Buffer kept = context.TakeResponseAttachment();
  const int port = this->port();
  StopServer();
  StartServer({}, port);
  // The context's Buffer is of the connection that is gone.
  context.set_wait_for_ready(true);
  context.set_timeout(absl::Seconds(30));
  absl::Status status = stub->Echo(&context, EchoRequest(), &reply);
  if (absl::IsUnavailable(status)) {
    status = stub->Echo(&context, EchoRequest(), &reply);
  }
  ASSERT_EQ(status, absl::OkStatus());
  EXPECT_TRUE(Same(context.response_attachment(), text));
  EXPECT_TRUE(Same(kept.span(), text));
}

}  // namespace
}  // namespace verbena::end_to_end
