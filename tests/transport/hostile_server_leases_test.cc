// Servers that would write to what they were lent after the call: a client that
// lends through windows does not let them.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

EndpointOptions Revoking() {
  EndpointOptions options = TestOptions();
  options.revoke_leases = true;
  options.memory_idle_time = absl::Milliseconds(10);
  return options;
}

class HostileServerLeasesTest : public HostileServerFixture {
 protected:
  HostileServerLeasesTest() { Opened(Revoking()); }

  // A lease as the server knows it.
  struct Lent {
    RequestHeader request;
    uint64_t address = 0;
    uint32_t rkey = 0;
  };

  Lent StartAndBorrow(TestCall& call) {
    client_->Start(call);
    const absl::StatusOr<std::string> frame =
        raw_->Receive(FrameType::kRequest);
    CHECK(frame.ok()) << frame.status().ToString();
    const absl::StatusOr<ConnectRequest> hello =
        DecodeConnectRequest(raw_->connect_event().private_data());
    CHECK(hello.ok()) << hello.status().ToString();
    Lent lent;
    lent.request = HeaderOf<RequestHeader>(*frame);
    lent.address = hello->arena.address + lent.request.reply_offset;
    lent.rkey =
        SplitRequest(
            absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(frame->data()),
                                frame->size()))
            .lease_rkey;
    return lent;
  }

  // The answer to it, whose attachment is in the lease.
  std::string Answer(const Lent& lent) {
    ResponseHeader response = Response(lent.request);
    response.frame.flags = kFlagAttachmentInArena;
    response.attachment_bytes = kReplyBytes;
    return FrameText(response);
  }
  void Write(const Lent& lent, char what) {
    ASSERT_TRUE(raw_->Write(lent.address, lent.rkey,
                            std::string(RawPeer::kPeerBufferBytes, what))
                    .ok());
  }

  static TestCall::Options Keeping() {
    TestCall::Options options = Hinted();
    options.keep_attachment = true;
    return options;
  }
};

TEST_F(HostileServerLeasesTest, ALeaseComesWithAKeyOfItsOwn) {
  TestCall call("x", Hinted());
  const Lent lent = StartAndBorrow(call);
  EXPECT_NE(lent.request.frame.flags & kFlagLeaseKey, 0);
  EXPECT_NE(lent.rkey, 0u);
  client_.reset();
}

TEST_F(HostileServerLeasesTest, WhoHasGivenTheKeyBackCannotWriteAnyMore) {
  TestCall call("x", Keeping());
  const Lent lent = StartAndBorrow(call);
  Write(lent, 'a');
  ASSERT_TRUE(raw_->SendInvalidating(Answer(lent), lent.rkey).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  ASSERT_TRUE(call.status().ok()) << call.status();
  const Buffer attachment = call.TakeReplyAttachment();
  Write(lent, 'b');
  EXPECT_FALSE(raw_->Flush().ok());
  EXPECT_EQ(attachment.data()[0], 'a');
  EXPECT_EQ(attachment.data()[RawPeer::kPeerBufferBytes - 1], 'a');
}

TEST_F(HostileServerLeasesTest, NobodyWritesByTheKeyOfTheArena) {
  TestCall call("x", Hinted());
  Lent lent = StartAndBorrow(call);
  const absl::StatusOr<ConnectRequest> hello =
      DecodeConnectRequest(raw_->connect_event().private_data());
  lent.rkey = hello->arena.rkey;
  Write(lent, 'a');
  EXPECT_FALSE(raw_->Flush().ok());
  client_.reset();
}

TEST_F(HostileServerLeasesTest, EndsCallsForAnAnswerThatKeepsTheKey) {
  TestCall call("x", Hinted());
  const Lent lent = StartAndBorrow(call);
  Write(lent, 'a');
  ExpectEnd(call, Answer(lent), "kept the key of the lease that it wrote to");
}

TEST_F(HostileServerLeasesTest, EndsCallsForAnAnswerThatGivesAnotherKeyBack) {
  TestCall other("x", Hinted());
  const Lent others = StartAndBorrow(other);
  TestCall call("x", Hinted());
  const Lent lent = StartAndBorrow(call);
  ASSERT_TRUE(raw_->SendInvalidating(Answer(lent), others.rkey).ok());
  ExpectEnd(call, "kept the key of the lease that it wrote to");
}

// As one whose answer crosses a LEASE does.
TEST_F(HostileServerLeasesTest, ALeaseThatWasNotUsedIsTakenBack) {
  // More than there are of any one thing.
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE(i);
    TestCall call("x", Hinted());
    const Lent lent = StartAndBorrow(call);
    ASSERT_TRUE(raw_->Send(FrameText(Response(lent.request, 2), "ok")).ok());
    ASSERT_TRUE(client_->RunUntilDone(call));
    ASSERT_EQ(call.reply(), "ok");
    if (i < 599) continue;
    // Its last SEND is acknowledged after the key is gone.
    TestCall next("x");
    const RequestHeader request = StartAndReceive(next);
    ASSERT_TRUE(raw_->Send(FrameText(Response(request))).ok());
    ASSERT_TRUE(client_->RunUntilDone(next));
    Write(lent, 'b');
    EXPECT_FALSE(raw_->Flush().ok());
  }
}

// More than are taken back at a time.
TEST_F(HostileServerLeasesTest, ManyLeasesThatWereNotUsedAreTakenBackAtOnce) {
  constexpr int kCalls = 3 * kBulkDepth;
  // So that all answers are there when the client looks.
  for (uint32_t credits = kIdleCredits; credits < kCredits; credits *= 2) {
    TestCall call("x");
    ResponseHeader response = Response(StartAndReceive(call));
    response.frame.flags |= kFlagCreditsWanted;
    ASSERT_TRUE(raw_->Send(FrameText(response)).ok());
    ASSERT_TRUE(client_->RunUntilDone(call));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<TestCall>> calls;
    std::vector<RequestHeader> requests;
    for (int i = 0; i < kCalls; ++i) {
      calls.push_back(std::make_unique<TestCall>("x", Hinted()));
      client_->Start(*calls.back());
      const absl::StatusOr<std::string> frame =
          PollForFrame(FrameType::kRequest);
      ASSERT_TRUE(frame.ok()) << frame.status();
      requests.push_back(HeaderOf<RequestHeader>(*frame));
      EXPECT_NE(requests.back().frame.flags & kFlagLeaseKey, 0);
    }
    EXPECT_GT(client_->connection().arena_bytes(), kFirstArenaBytes);
    for (const RequestHeader& request : requests) {
      ASSERT_TRUE(raw_->Send(FrameText(Response(request, 2), "ok")).ok());
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(client_->RunUntilDone(*call));
      EXPECT_EQ(call->reply(), "ok");
    }
    // Each was in memory that only goes back when nothing is in it.
    EXPECT_TRUE(client_->RunUntil([this] {
      return client_->connection().arena_bytes() == kFirstArenaBytes;
    }));
  }
}

TEST_F(HostileServerLeasesTest, AKeyThatIsNoneOfItsWindowsEndsTheConnection) {
  TestCall call("x", Hinted());
  const Lent lent = StartAndBorrow(call);
  ASSERT_TRUE(raw_->SendInvalidating(Answer(lent), lent.rkey ^ 0x100).ok());
  ASSERT_TRUE(client_->RunUntilDone(call));
  EXPECT_FALSE(call.status().ok());
}

}  // namespace
}  // namespace verbena::transport
