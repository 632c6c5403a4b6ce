// Tests that the transport allocates nothing for a call, at either side, once
// calls of its kind have been made. The exceptions are messages that no frame
// holds: the tests say how often each allocates, and why.
//
// A single thread drives the client and the server in turns, so the counter
// sees all that the threads of both pollers would do.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/hot_path_counters.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/buffer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/client/client_poller.h"
#include "transport/polling/task.h"
#include "transport/server/server_call.h"
#include "transport/server_endpoint.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using testing_support::CountedSoFar;
using testing_support::CountThisThread;
using testing_support::TestListenAddress;
using testing_support::TestProvider;

constexpr int kWarmUpCalls = 200;
constexpr int kCalls = 1000;
// More may wait at once when the machine is busy, and the storage for it grows
// then.
constexpr uint64_t kGrowth = 10;
constexpr int kTogether = 32;  // Calls that travel together.
// A client takes new memory for a reply that no frame holds: for one that comes
// in several frames, and to copy one that the server can still write to.
constexpr uint64_t kReplyMemory = 1;

void Write(MessageStream* stream, absl::Span<const uint8_t> message,
           MessageStream::Allocate allocate) {
  ASSERT_EQ(
      stream->Write(message.size(), {}, /*attachment_buffer=*/nullptr, allocate,
                    [message](uint8_t* out) {
                      std::memcpy(out, message.data(), message.size());
                    }),
      MessageStream::Result::kDone);
}

// A copy of a reply, for when there is room for that; to be used again.
class Copy final : public ReplyWriter {
 public:
  void Assign(const ServerCall& call) {
    bytes_.assign(call.metadata().begin(), call.metadata().end());
    bytes_.insert(bytes_.end(), call.message().begin(), call.message().end());
    used_ = true;
  }
  bool used() const { return used_; }
  void WriteReply(uint8_t* out) override {
    std::memcpy(out, bytes_.data(), bytes_.size());
  }
  void OnReplyDone() override { used_ = false; }

 private:
  std::vector<uint8_t> bytes_;
  bool used_ = false;
};

// Echoes metadata, message and attachment, and allocates nothing for that when
// it is warm. Keeps the last call that streams.
class EchoServer final : public ServerHandler, public MessageStream::Owner {
 public:
  void OnCall(ServerCall* call) override {
    if (call->stream() != nullptr) {
      streaming_ = call;
      return call->stream()->set_owner(this);
    }
    const absl::Span<const uint8_t> message = call->message();
    if (call->metadata().empty() && call->attachment().empty()) {
      if (uint8_t* const out = call->BeginReply(message.size())) {
        std::memcpy(out, message.data(), message.size());
        return call->SendReply();
      }
    }
    ServerCall::Reply reply;
    reply.metadata_bytes = static_cast<uint32_t>(call->metadata().size());
    reply.message_bytes = message.size();
    reply.attachment = call->TakeAttachment();
    absl::StatusOr<Buffer> buffer = Buffer();
    if (message.size() > kFrameReplyBytes) {
      buffer = call->AllocateReply(message.size());
    }
    if (buffer.ok() && !buffer->empty()) {
      std::memcpy(buffer->data(), message.data(), message.size());
      reply.buffer = *std::move(buffer);
    } else {
      Copy& copy = *absl::c_find_if_not(copies_, std::mem_fn(&Copy::used));
      copy.Assign(*call);
      reply.writer = &copy;
    }
    call->Finish(std::move(reply));
  }
  void OnCancelled(ServerCall* /*call*/) override {}

  // Runs at once, because the thread that reads and writes also polls.
  void PostStream() override { streaming_->stream()->Run(); }
  void OnReadable() override {}
  void OnWritable() override {}

  // Sends back the messages of the stream that have come.
  void EchoMessages() {
    MessageStream::Message message;
    while (streaming_ != nullptr && streaming_->stream()->Read(&message) ==
                                        MessageStream::Result::kDone) {
      Write(streaming_->stream(), message.message,
            [this](size_t bytes) { return streaming_->AllocatePart(bytes); });
    }
  }
  // Ends the call that streams.
  void EndStream() {
    streaming_->stream()->set_owner(nullptr);
    std::exchange(streaming_, nullptr)->Finish({});
  }

 private:
  std::array<Copy, kTogether + 1> copies_;
  ServerCall* streaming_ = nullptr;
};

// A call that can be made again when it has ended.
class EchoCall final : public ClientCall, public MessageStream::Owner {
 public:
  struct Lengths {
    uint32_t metadata = 0;
    size_t message = 0;
    size_t attachment = 0;
    uint64_t reply_hint = 0;
  };

  EchoCall() : EchoCall({.message = 64}) {}
  explicit EchoCall(const Lengths& lengths)
      : bytes_(TestBytes(lengths.metadata + lengths.message)) {
    request_.metadata_bytes = lengths.metadata;
    request_.message_bytes = lengths.message;
    request_.reply_hint_bytes = lengths.reply_hint;
  }

  // Sends `attachment` with the message.
  void Attach(Buffer attachment) {
    attachment_ = std::move(attachment);
    request_.attachment = attachment_.span();
    request_.attachment_buffer = &attachment_;
  }
  // Has the call stream its messages.
  MessageStream* Stream() {
    stream_.emplace(this, kMaxMessageBytes, "the test's limit",
                    /*marks_end=*/true);
    set_stream(&*stream_);
    return &*stream_;
  }

  void Begin() { ended_ = false; }
  bool ended() const { return ended_; }

  void WriteRequest(uint8_t* out) override {
    std::memcpy(out, bytes_.data(), bytes_.size());
  }
  void OnResponse(const CallResponse& response) override {
    ended_ = true;
    CHECK(response.code == absl::StatusCode::kOk);
    CHECK_EQ(response.metadata.size(), request_.metadata_bytes);
    CHECK_EQ(response.message.size(), request_.message_bytes);
    const size_t attached =
        response.attachment == nullptr ? 0 : response.attachment->size();
    CHECK_EQ(attached, attachment_.size());
  }
  void OnFailed(const absl::Status& status) override {
    CHECK(status.ok()) << status.ToString();
  }

  void PostStream() override { stream_->Run(); }
  void OnReadable() override {}
  void OnWritable() override {}

 private:
  const std::string bytes_;
  Buffer attachment_;
  std::optional<MessageStream> stream_;
  bool ended_ = true;
};

// A client and a server on one thread, which is counted.
class AllocationsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    CountThisThread();
    EndpointOptions options = TestOptions();
    options.checksum = GetParam();
    ServerEndpoint::Options server_options;
    server_options.endpoint = options;
    server_options.addresses = {TestListenAddress()};
    server_options.wait = [this] { Step(); };
    absl::StatusOr<std::unique_ptr<ServerEndpoint>> server =
        ServerEndpoint::Start(server_options, handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);

    client_ = *ClientPoller::Create();
    client_->poller().Enter();
    connection_ = client_->Connect(TestProvider(),
                                   *base::SocketAddress::ParseNumeric(
                                       server_->listening().front().address),
                                   options, /*observer=*/nullptr);
    ASSERT_TRUE(StepUntil([this] { return !connection_->connecting(); }));
    ASSERT_TRUE(connection_->usable()) << connection_->failure();
  }

  void TearDown() override {
    // First the server, whose end drives the client as well.
    server_->Shutdown(absl::InfinitePast());
    client_->Close(std::move(connection_));
    client_->poller().Leave();
  }

  void Step() {
    if (client_ != nullptr) client_->poller().PollOnce();
    if (server_ != nullptr) server_->Step();
  }
  bool StepUntil(absl::FunctionRef<bool()> done) {
    const absl::Time deadline = base::Now() + kTestTimeout;
    while (!done()) {
      if (base::Now() >= deadline) return false;
      Step();
    }
    return true;
  }

  void MakeCall(EchoCall& call) {
    call.Begin();
    connection_->Start(&call);
    ASSERT_TRUE(StepUntil([&call] { return call.ended(); }));
  }

  // Does `call` again and again; expects that it allocates so often when warm.
  void ExpectAllocations(uint64_t each, absl::FunctionRef<void()> call) {
    for (int i = 0; i < kWarmUpCalls; ++i) call();
    const uint64_t before = CountedSoFar().allocations;
    for (int i = 0; i < kCalls; ++i) call();
    const uint64_t allocations = CountedSoFar().allocations - before;
    EXPECT_GE(allocations, each * kCalls) << "in " << kCalls << " calls";
    EXPECT_LE(allocations, each * kCalls + kGrowth)
        << "in " << kCalls << " calls";
  }
  void ExpectAllocationsOf(uint64_t each, const EchoCall::Lengths& lengths) {
    EchoCall call(lengths);
    if (lengths.attachment > 0) {
      call.Attach(connection_->buffer_source().Allocate(lengths.attachment));
    }
    ExpectAllocations(each, [&] { MakeCall(call); });
  }
  // Expects it of a message of such a length there and back, in one stream.
  void ExpectAllocationsOfMessages(uint64_t each, size_t bytes) {
    EchoCall call(EchoCall::Lengths{});
    MessageStream* const stream = call.Stream();
    call.Begin();
    connection_->Start(&call);
    const std::string message = TestBytes(bytes);
    int messages = 0;
    ExpectAllocations(each, [&] {
      Write(stream,
            {reinterpret_cast<const uint8_t*>(message.data()), message.size()},
            [this](size_t length) {
              return connection_->buffer_source().Allocate(length);
            });
      MessageStream::Message reply;
      ASSERT_TRUE(StepUntil([&] {
        handler_.EchoMessages();
        return stream->Read(&reply) == MessageStream::Result::kDone;
      }));
      ASSERT_EQ(reply.message.size(), bytes);
      // Each look of a reader exchanges two buffers, both of which warm up.
      if (++messages % 2 == 0) return;
      handler_.EchoMessages();
      ASSERT_EQ(stream->Read(&reply), MessageStream::Result::kWait);
    });
    handler_.EndStream();
    ASSERT_TRUE(StepUntil([&call] { return call.ended(); }));
  }

  EchoServer handler_;
  std::unique_ptr<ServerEndpoint> server_;
  std::unique_ptr<ClientPoller> client_;
  std::unique_ptr<ClientConnection> connection_;
};

TEST_P(AllocationsTest, ASmallCall) { ExpectAllocationsOf(0, {.message = 64}); }

TEST_P(AllocationsTest, ACallWithMetadata) {
  ExpectAllocationsOf(0, {.metadata = 300, .message = 64});
}

TEST_P(AllocationsTest, AnAttachmentInTheFrame) {
  ExpectAllocationsOf(0, {.message = 64, .attachment = 1000});
}

TEST_P(AllocationsTest, AMessageOfSeveralFrames) {
  ExpectAllocationsOf(kReplyMemory, {.message = 12 << 10});
}

TEST_P(AllocationsTest, AMessageByReadAndWrite) {
  ExpectAllocationsOf(kReplyMemory,
                      {.message = 256 << 10, .reply_hint = 256 << 10});
}

TEST_P(AllocationsTest, AReplyWhoseLeaseIsAskedFor) {
  ExpectAllocationsOf(kReplyMemory, {.message = 256 << 10});
}

TEST_P(AllocationsTest, AnAttachmentByReadAndWrite) {
  ExpectAllocationsOf(
      0, {.message = 64, .attachment = 64 << 10, .reply_hint = 66 << 10});
}

TEST_P(AllocationsTest, CallsThatTravelTogether) {
  // Starts all in one round of the client.
  class Start final : public Task {
   public:
    Start(ClientConnection& connection, std::deque<EchoCall>& calls)
        : connection_(connection), calls_(calls) {}
    void Run() override {
      for (EchoCall& call : calls_) connection_.Start(&call);
    }

   private:
    ClientConnection& connection_;
    std::deque<EchoCall>& calls_;
  };
  std::deque<EchoCall> calls(kTogether);
  Start start(*connection_, calls);
  ExpectAllocations(0, [&] {
    for (EchoCall& call : calls) call.Begin();
    connection_->poller().Post(&start);
    ASSERT_TRUE(StepUntil([&calls] {
      for (const EchoCall& call : calls) {
        if (!call.ended()) return false;
      }
      return true;
    }));
  });
}

TEST_P(AllocationsTest, AMessageOfAStream) {
  ExpectAllocationsOfMessages(0, 64);
}

TEST_P(AllocationsTest, AMessageOfAStreamInSeveralFrames) {
  ExpectAllocationsOfMessages(0, 12 << 10);
}

// With checksums a long message goes in frames. A stream keeps no buffer of
// such a length, so each side allocates it, first for the header and then for
// all.
TEST_P(AllocationsTest, ALongMessageOfAStream) {
  ExpectAllocationsOfMessages(GetParam() ? 4 : kReplyMemory, 256 << 10);
}

INSTANTIATE_TEST_SUITE_P(Checksums, AllocationsTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "With" : "Without";
                         });

}  // namespace
}  // namespace verbena::transport
