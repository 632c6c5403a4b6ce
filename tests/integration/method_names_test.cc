// The names of methods on the wire: what clients send, and what servers take.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/method_hash.h"
#include "rpc/byte_message.h"
#include "rpc/generic_service.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/transport/raw_peer.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;
using testing::Not;
using transport::FrameText;
using transport::FrameType;
using transport::HeaderOf;
using transport::RawListener;
using transport::RawPeer;
using transport::RequestHeader;
using transport::ResponseHeader;

constexpr char kEcho[] = "verbena.end_to_end.EndToEnd/Echo";

// Answers everything with nothing.
class CallCounter final : public GenericService {
 public:
  absl::Status HandleUnary(ServerContext* /*context*/,
                           const ByteMessage* /*request*/,
                           ByteMessage* /*response*/) override {
    ++calls_;
    return absl::OkStatus();
  }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

// A client that sends what no correct one does.
class HostileNamesTest : public EndToEndTest {
 protected:
  ~HostileNamesTest() override { StopServer(); }

  // Makes a call of the method with that number and these metadata. Returns the
  // answer's code and text; a call of a well-behaved method is answered after
  // it.
  absl::Status Call(uint64_t method_id, const std::string& metadata,
                    uint8_t flags = 0) {
    RequestHeader request =
        client_->InlineRequest(++call_id_ << 16, method_id, 0);
    request.frame.flags |= flags;
    request.metadata_bytes = static_cast<uint16_t>(metadata.size());
    if (absl::Status sent = client_->Send(FrameText(request, metadata));
        !sent.ok()) {
      return sent;
    }
    const absl::StatusOr<std::string> answer =
        client_->Receive(FrameType::kResponse);
    if (!answer.ok()) return answer.status();
    const auto header = HeaderOf<ResponseHeader>(*answer);
    return absl::Status(static_cast<absl::StatusCode>(header.code),
                        absl::string_view(*answer).substr(
                            sizeof(header), header.status_message_bytes));
  }

  static std::string Pair(const std::string& key, const std::string& value) {
    std::string pair = {
        static_cast<char>(key.size()), static_cast<char>(key.size() >> 8),
        static_cast<char>(value.size()), static_cast<char>(value.size() >> 8)};
    return pair + key + value;
  }

  void Connect() {
    StartServer([this](ServerBuilder& builder) {
      builder.RegisterGenericService(&counter_);
    });
    auto client = RawPeer::Create(target(), RawPeer::Options());
    ASSERT_EQ(client.status(), absl::OkStatus());
    client_ = *std::move(client);
    ASSERT_EQ(client_->Open(), absl::OkStatus());
  }

  CallCounter counter_;
  std::unique_ptr<RawPeer> client_;
  uint32_t call_id_ = 0;
};

TEST_F(HostileNamesTest, ANameThatIsNoneEndsItsCallAndNothingElse) {
  Connect();
  for (const std::string& name :
       {std::string(), std::string("/"), std::string("no slash"),
        std::string("a.B/C\0D", 7), std::string("a.B/\x1b[2J\n"),
        std::string("a.B/\xff\xfe"), std::string(2000, 'a')}) {
    for (const uint8_t flags : {uint8_t{0}, transport::kFlagStream}) {
      const absl::Status status =
          Call(MethodHash(name), Pair(":path", name), flags);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\xff")));
      EXPECT_LT(status.message().size(), 500u);
    }
  }
  EXPECT_EQ(counter_.calls(), 0);
  EXPECT_EQ(Call(MethodHash("a.B/C"), Pair(":path", "a.B/C")),
            absl::OkStatus());
  EXPECT_EQ(counter_.calls(), 1);
}

TEST_F(HostileNamesTest, ANameOfAnotherMethodThanIsCalledIsRefused) {
  Connect();
  // No handler is called, because it would trust either the name or the hash.
  EXPECT_TRUE(absl::IsInvalidArgument(
      Call(MethodHash("a.B/C"), Pair(":path", "a.B/D"))));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Call(MethodHash(kEcho), Pair(":path", "a.B/D"))));
  EXPECT_EQ(counter_.calls(), 0);
}

TEST_F(HostileNamesTest, OfSeveralNamesTheFirstCounts) {
  Connect();
  EXPECT_EQ(Call(MethodHash("a.B/C"),
                 Pair(":path", "a.B/C") + Pair(":path", "x.Y/Z")),
            absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(Call(
      MethodHash("a.B/C"), Pair(":path", "x.Y/Z") + Pair(":path", "a.B/C"))));
}

TEST_F(HostileNamesTest, WithoutANameAMethodIsAsGoodAsUnknown) {
  Connect();
  for (const std::string& metadata : {std::string(), Pair("trace", "1")}) {
    const absl::Status status = Call(0xabc, metadata);
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("0x0000000000000abc"));
  }
  // A registered method is found by its hash.
  EXPECT_EQ(Call(MethodHash(kEcho), ""), absl::OkStatus());
}

// Tests of the names that a channel sends to servers played by the test.
class NamesOnTheWireTest : public EndToEndTest {
 protected:
  // Takes the next client, and asks it for names or not.
  std::unique_ptr<RawPeer> Accept(bool wants_names, uint16_t credits = 64) {
    RawPeer::Options raw_options;
    raw_options.credits = credits;
    std::unique_ptr<RawPeer> server = *listener_->Next(raw_options);
    EXPECT_EQ(server->Accept(transport::EncodeConnectReply({server->Limits()})),
              absl::OkStatus());
    EXPECT_EQ(server->Receive(FrameType::kHello).status(), absl::OkStatus());
    std::vector<transport::HelloOption> options;
    if (wants_names) options.push_back({transport::kOptionMethodNames, ""});
    EXPECT_EQ(server->Send(FrameText(server->Header(FrameType::kWelcome),
                                     transport::EncodeOptions(options))),
              absl::OkStatus());
    return server;
  }

  static std::string NextRequest(RawPeer& server) {
    absl::StatusOr<std::string> frame = server.Receive(FrameType::kRequest);
    EXPECT_EQ(frame.status(), absl::OkStatus());
    return frame.ok() ? *frame : std::string(sizeof(RequestHeader), '\0');
  }

  static std::string MetadataOf(const std::string& request) {
    return request.substr(sizeof(RequestHeader),
                          HeaderOf<RequestHeader>(request).metadata_bytes);
  }

  static void Abort(RawPeer& server, const std::string& request) {
    ResponseHeader response = {};
    response.frame = server.Header(
        FrameType::kResponse, HeaderOf<RequestHeader>(request).frame.call_id);
    response.code = static_cast<uint32_t>(absl::StatusCode::kAborted);
    EXPECT_EQ(server.Send(FrameText(response)), absl::OkStatus());
  }

  // The pair that names the method.
  const std::string echo_pair_ = std::string("\x05\0\x20\0:path", 9) + kEcho;
  const std::unique_ptr<RawListener> listener_ = *RawListener::Create();
};

TEST_F(NamesOnTheWireTest, TheNameGoesOnlyToServersThatAskForIt) {
  for (const bool wants_names : {false, true}) {
    const auto stub = EndToEnd::NewStub(CreateChannel(listener_->address()));
    absl::Status status;
    std::thread caller([&] {
      ClientContext context;
      context.set_timeout(absl::Minutes(2));
      EchoReply reply;
      status = stub->Echo(&context, EchoRequest(), &reply);
    });
    const std::unique_ptr<RawPeer> server = Accept(wants_names);
    const std::string request = NextRequest(*server);
    EXPECT_EQ(MetadataOf(request), wants_names ? echo_pair_ : "");
    Abort(*server, request);
    caller.join();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  }
}

TEST_F(NamesOnTheWireTest, ACallThatIsMadeAgainForgetsWhatOneServerWanted) {
  const auto stub = EndToEnd::NewStub(CreateChannel(listener_->address()));
  const EchoRequest request;
  EchoReply replies[2];
  ClientContext contexts[2];
  Countdown done(2);
  for (int i = 0; i < 2; ++i) {
    contexts[i].set_timeout(absl::Minutes(2));
    contexts[i].AddMetadata("k", "v");
    stub->async()->Echo(&contexts[i], &request, &replies[i],
                        [&](const absl::Status& status) {
                          EXPECT_TRUE(absl::IsAborted(status)) << status;
                          done.Done();
                        });
  }
  const std::string metadata("\x01\0\x01\0kv", 6);
  // There is one credit. So the second call has to wait, and goes to another
  // connection after the GOAWAY.
  const std::unique_ptr<RawPeer> first =
      Accept(/*wants_names=*/true, /*credits=*/1);
  const std::string posted = NextRequest(*first);
  EXPECT_EQ(MetadataOf(posted), echo_pair_ + metadata);
  EXPECT_EQ(first->Send(FrameText(first->Header(FrameType::kGoAway))),
            absl::OkStatus());
  const std::unique_ptr<RawPeer> second = Accept(/*wants_names=*/false);
  const std::string moved = NextRequest(*second);
  EXPECT_EQ(MetadataOf(moved), metadata);
  Abort(*second, moved);
  Abort(*first, posted);
  done.Wait();
}

// The name may be what makes metadata too long for a REQUEST.
TEST_F(NamesOnTheWireTest, WithoutTheNameTheMetadataFitTheFrameAgain) {
  const auto stub = EndToEnd::NewStub(CreateChannel(listener_->address()));
  const EchoRequest request;
  EchoReply reply;
  ClientContext context;
  context.set_timeout(absl::Minutes(2));
  const std::string value(transport::kFrameMetadataBytes - 5, 'v');
  context.AddMetadata("k", value);
  Countdown done(1);
  stub->async()->Echo(&context, &request, &reply,
                      [&](const absl::Status& status) {
                        EXPECT_TRUE(absl::IsAborted(status)) << status;
                        done.Done();
                      });
  // METADATA takes the only credit. So the call has to wait, and goes to
  // another connection after the GOAWAY.
  const std::unique_ptr<RawPeer> first =
      Accept(/*wants_names=*/true, /*credits=*/1);
  const absl::StatusOr<std::string> ahead =
      first->Receive(FrameType::kMetadata);
  ASSERT_EQ(ahead.status(), absl::OkStatus());
  const std::string metadata =
      std::string("\x01\0", 2) + std::string("\xfb\x07k", 3) + value;
  EXPECT_EQ(ahead->substr(sizeof(transport::FrameHeader)),
            echo_pair_ + metadata);
  EXPECT_EQ(first->Send(FrameText(first->Header(FrameType::kGoAway))),
            absl::OkStatus());
  const std::unique_ptr<RawPeer> second = Accept(/*wants_names=*/false);
  const std::string moved = NextRequest(*second);
  EXPECT_EQ(MetadataOf(moved), metadata);
  Abort(*second, moved);
  done.Wait();
}

}  // namespace
}  // namespace verbena::end_to_end
