// Clients that keep the server waiting: it ends what they hold in bounded time,
// and others go on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/child_process.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::ChildProcess;
using testing_support::kTestTimeout;
using testing_support::TestCall;

constexpr uint64_t kProduce = static_cast<uint64_t>(TestMethod::kProduce);
constexpr uint64_t kAttach = static_cast<uint64_t>(TestMethod::kAttach);

// Long enough for a good client on an emulated processor to get on.
constexpr absl::Duration kStall = absl::Seconds(4);
// There a mebibyte may take seconds.
constexpr uint64_t kBulkBytes = uint64_t{2} << 20;

// A peer that is silent is not noticed, only one that does not get on.
EndpointOptions Options() {
  EndpointOptions options = TestOptions();
  options.keepalive_time = absl::Hours(1);
  options.stall_timeout = kStall;
  options.max_bulk_bytes = kBulkBytes;
  options.max_receive_message_bytes = kBulkBytes / 2;
  options.max_send_message_bytes = kBulkBytes / 2;
  return options;
}

// The next RESPONSE. The credits that the server gives back meanwhile it gets
// again.
absl::StatusOr<std::string> NextResponse(RawPeer& raw) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (base::Now() < deadline) {
    absl::StatusOr<std::string> frame = raw.Receive();
    if (!frame.ok()) return frame;
    const FrameType type = HeaderOf<FrameHeader>(*frame).type;
    if (type == FrameType::kResponse) return frame;
    if (type != FrameType::kReturn) continue;
    const absl::Status sent = raw.Send(FrameText(raw.Header(FrameType::kPing)));
    if (!sent.ok()) return sent;
  }
  return absl::DeadlineExceededError("no RESPONSE came");
}

// The role of the child process. It makes calls whose requests the server reads
// from the child's memory, and whose replies the server writes there, as many
// as the server takes.
constexpr char kClientRole[] = "--be-a-client-with-large-calls";
constexpr uint32_t kLargeBytes = kBulkBytes / 4;
constexpr uint32_t kLargeCalls = 8;  // At once.

int BeClient(const std::string& address) {
  RawPeer::Options options;
  options.arena_bytes = kLargeBytes;
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(address, options);
  CHECK(raw.ok()) << raw.status().ToString();
  absl::Status status = (*raw)->Open();
  for (uint32_t sent = 0; status.ok(); ++sent) {
    uint32_t call_id = sent;
    if (sent >= kLargeCalls) {
      const absl::StatusOr<std::string> response = NextResponse(**raw);
      if (!response.ok()) break;
      call_id = HeaderOf<FrameHeader>(*response).call_id;
    }
    RequestHeader request =
        (*raw)->ArenaRequest(call_id, kEcho, 0, kLargeBytes);
    request.frame.flags |= kFlagReplyLease;
    request.reply_bytes = kLargeBytes;
    status = (*raw)->Send(FrameText(request));
  }
  return 0;
}

class HostileClientStallsTest : public HostileClientFixture {
 protected:
  HostileClientStallsTest() : HostileClientFixture(Options()) {}

  // Sends a request of `method` with a number as its message.
  void Ask(RawPeer& raw, uint32_t call_id, uint64_t method, uint64_t number,
           absl::Duration timeout = absl::InfiniteDuration()) {
    const std::string text = absl::StrCat(number);
    RequestHeader request =
        raw.InlineRequest(call_id, method, static_cast<uint32_t>(text.size()));
    if (timeout != absl::InfiniteDuration()) {
      request.timeout_us =
          static_cast<uint64_t>(absl::ToInt64Microseconds(timeout));
    }
    ASSERT_TRUE(raw.Send(FrameText(request, text)).ok());
  }

  static absl::StatusCode CodeOfNext(RawPeer& raw) {
    const absl::StatusOr<std::string> response = NextResponse(raw);
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return absl::StatusCode::kUnknown;
    return static_cast<absl::StatusCode>(
        HeaderOf<ResponseHeader>(*response).code);
  }

  // Waits for the end of every connection but the good client's. Returns what
  // the server has said.
  std::string AwaitDropped() {
    EXPECT_TRUE(server_.AwaitConnections(1));
    return testing::internal::GetCapturedStderr();
  }

  // An echo for which a client that takes what it can get leaves no room.
  absl::Status LargeEcho() {
    TestCall::Options options;
    options.deadline = base::Now() + kTestTimeout / 2;
    return good_.Echo(kLargeBytes - 100, options);
  }
};

// --- Leases ------------------------------------------------------------------

TEST_F(HostileClientStallsTest, LendsNoMemoryForReplies) {
  RawPeer& raw = Opened();
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(Ask(raw, i, i == 1 ? kAttach : kProduce, 1000000));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kResourceExhausted);
  }
  // The client may make further calls, because it may have lacked memory for
  // good reasons.
  ASSERT_NO_FATAL_FAILURE(Ask(raw, 3, kProduce, 10));
  EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kOk);
}

TEST_F(HostileClientStallsTest, LendsMemoryTooLate) {
  RawPeer& raw = Opened();
  ASSERT_NO_FATAL_FAILURE(Ask(raw, 0, kProduce, 1000000));
  EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kResourceExhausted);
  LeaseHeader lease = {};
  lease.frame = raw.Header(FrameType::kLease, 0);
  lease.bytes = 1000000;
  ASSERT_TRUE(raw.Send(FrameText(lease)).ok());
  ASSERT_NO_FATAL_FAILURE(Ask(raw, 1 << 16, kProduce, 10));
  EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kOk);
}

TEST_F(HostileClientStallsTest, LendsNoMemoryUntilTheDeadline) {
  RawPeer& raw = Opened();
  const absl::Time start = base::Now();
  ASSERT_NO_FATAL_FAILURE(Ask(raw, 0, kProduce, 1000000));
  ASSERT_NO_FATAL_FAILURE(
      Ask(raw, 1, kProduce, 1000000, absl::Milliseconds(100)));
  EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(base::Now() - start, absl::Milliseconds(100));
  EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kResourceExhausted);
}

// --- Credits -----------------------------------------------------------------

TEST_F(HostileClientStallsTest, ReturnsNoCredits) {
  testing::internal::CaptureStderr();
  RawPeer& raw = Opened();
  for (uint32_t i = 0; i < kCredits + 10; ++i) {
    RequestHeader request = raw.InlineRequest(i, kDiscard, 0);
    request.frame.credit_limit = kCredits;
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  }
  EXPECT_THAT(AwaitDropped(), HasSubstr("for 4s it returned too few credits"));
}

TEST_F(HostileClientStallsTest, ReturnsACreditNowAndThen) {
  constexpr uint32_t kWaiting = 100;
  testing::internal::CaptureStderr();
  RawPeer& raw = Opened();
  for (uint32_t i = 0; i < kCredits + kWaiting; ++i) {
    RequestHeader request = raw.InlineRequest(i, kDiscard, 0);
    request.frame.credit_limit = kCredits;
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  }
  FrameHeader grant = raw.Header(FrameType::kGrant);
  grant.credit_limit = kCredits;
  const absl::Time start = base::Now();
  // The connection ends long before all replies have a credit.
  bool dropped = false;
  while (!dropped && grant.credit_limit < kCredits + kWaiting / 2) {
    ++grant.credit_limit;
    if (!raw.Send(FrameText(grant)).ok()) break;
    const absl::Time next =
        start + kStall / 4 * (grant.credit_limit - kCredits);
    ASSERT_TRUE(good_.RunUntil([&] {
      dropped = server_.endpoint().connection_count() == 1;
      return dropped || base::Now() > next;
    }));
  }
  EXPECT_TRUE(dropped);
  EXPECT_THAT(AwaitDropped(), HasSubstr("for 4s it returned too few credits"));
}

// Replies whose deadline passes give their memory up while they wait for a
// credit, and the next credits bring the news.
TEST_F(HostileClientStallsTest, ReturnsCreditsOnlyAfterTheDeadline) {
  RawPeer::Options options;
  options.credits = 1;
  RawPeer& raw = Opened(options);
  // The WELCOME was paid with the only credit: nothing can be answered.
  const FrameHeader grant = raw.Header(FrameType::kGrant);
  const absl::Duration timeout = absl::Milliseconds(100);
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string text = "5000";
    RequestHeader request =
        raw.InlineRequest(i, i % 2 == 0 ? kProduce : kEcho, 4);
    request.frame.credit_limit = 1;
    request.timeout_us =
        static_cast<uint64_t>(absl::ToInt64Microseconds(timeout));
    ASSERT_TRUE(raw.Send(FrameText(request, text)).ok());
  }
  ASSERT_TRUE(raw.Flush().ok());
  const absl::Time start = base::Now();
  EXPECT_TRUE(good_.RunUntil(
      [start, timeout] { return base::Now() - start > 2 * timeout; }));
  FrameHeader more = grant;
  more.credit_limit = 1 + 4;
  ASSERT_TRUE(raw.Send(FrameText(more)).ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kDeadlineExceeded) << i;
  }
}

// --- Frames ------------------------------------------------------------------

TEST_F(HostileClientStallsTest, NeverFinishesAFrame) {
  testing::internal::CaptureStderr();
  RawPeer& raw = Opened();
  RequestHeader request = raw.InlineRequest(0, kEcho, 16000);
  request.frame.flags = kFlagContinued;
  std::string text = FrameText(request, TestBytes(8000));
  // The header states the length of the whole frame.
  FrameHeader header = HeaderOf<FrameHeader>(text);
  header.body_bytes = 16000;
  text.replace(0, sizeof(header), reinterpret_cast<const char*>(&header),
               sizeof(header));
  ASSERT_TRUE(raw.Send(text).ok());
  EXPECT_TRUE(raw.AwaitEnd().ok());
  EXPECT_THAT(AwaitDropped(), HasSubstr("did not finish a frame"));
}

// --- The device --------------------------------------------------------------

// A device that needs no process answers for it; else the connection ends.
TEST_F(HostileClientStallsTest, IsStoppedAmidItsLargeCalls) {
  ChildProcess child({"/proc/self/exe", kClientRole, server_.address()});
  ASSERT_TRUE(good_.RunUntil([this] { return server_.handler().calls() > 2; }));
  child.Stop();
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = LargeEcho();
    EXPECT_TRUE(status.ok()) << status;
  }
  // The server's work requests for the stopped client have ended: they are
  // complete, or the connection has ended.
  const absl::Time start = base::Now();
  EXPECT_TRUE(good_.RunUntil([this, start] {
    return server_.endpoint().connection_count() == 1 ||
           base::Now() - start > 3 * kStall;
  }));
  EXPECT_TRUE(LargeEcho().ok());
  child.Kill();
  EXPECT_TRUE(server_.AwaitConnections(1));
}

// --- Memory ------------------------------------------------------------------

// The client sends more requests than the server has memory for, and their
// handlers hold them.
TEST_F(HostileClientStallsTest, TakesWhatItCanGetOfTheMemory) {
  RawPeer& raw = Opened();
  constexpr uint32_t kBytes = kBulkBytes / 16;
  for (uint32_t i = 0; i < 2 * kBulkBytes / kBytes; ++i) {
    ASSERT_TRUE(
        raw.Send(FrameText(raw.ArenaRequest(i, kHold, 0, kBytes))).ok());
  }
  // All but an eighth.
  ASSERT_TRUE(server_.handler().AwaitHeld(kBulkBytes / kBytes * 7 / 8));
  TestCall::Options quick;
  quick.deadline = base::Now() + kTestTimeout / 2;
  const absl::Status status = good_.Echo(kBytes - 4096, quick);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(server_.handler().held(), int{kBulkBytes / kBytes * 7 / 8});
  server_.handler().Release();
  for (uint32_t i = 0; i < 2 * kBulkBytes / kBytes; ++i) {
    EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kOk) << i;
  }
}

// Deadlines hold for calls that wait for memory as well.
TEST_F(HostileClientStallsTest, WaitsForMemoryUntilTheDeadline) {
  RawPeer& raw = Opened();
  constexpr uint32_t kBytes = kBulkBytes / 16;
  constexpr uint32_t kHeld = kBulkBytes / kBytes * 7 / 8;
  for (uint32_t i = 0; i < kHeld; ++i) {
    ASSERT_TRUE(
        raw.Send(FrameText(raw.ArenaRequest(i, kHold, 0, kBytes))).ok());
  }
  ASSERT_TRUE(server_.handler().AwaitHeld(kHeld));
  for (uint32_t i = 0; i < 4; ++i) {
    RequestHeader request = raw.ArenaRequest(kHeld + i, kDiscard, 0, kBytes);
    request.timeout_us = 100000;
    ASSERT_TRUE(raw.Send(FrameText(request)).ok());
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(CodeOfNext(raw), absl::StatusCode::kDeadlineExceeded) << i;
  }
  EXPECT_EQ(server_.handler().calls(), int{kHeld});
}

}  // namespace
}  // namespace verbena::transport

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == verbena::transport::kClientRole) {
    return verbena::transport::BeClient(argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
