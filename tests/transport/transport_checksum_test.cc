// Calls with checksums: one bit is turned on its way, at each place where bytes
// of a call can be. The call ends with DATA_LOSS, no handler and no caller sees
// the bytes, the connection ends, and the next one is good.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/limits.h"
#include "transport/faulty/fault_plan.h"
#include "transport/wire/frame.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::TestProvider;

constexpr uint32_t kWhole = kBufferBytes;  // The first SEND of several.
constexpr uint32_t kPart = 300 * 1024;
constexpr uint32_t kSums = sizeof(FrameSums);

// A call, and the work request whose bytes are damaged.
struct Place {
  const char* name;
  bool at_client;  // Whether the client posts the work request.
  ibv_wr_opcode opcode;
  uint32_t least;  // The work request has from `least` to `most` bytes.
  uint32_t most;
  uint32_t offset;
  TestMethod method;
  // The request's message, or the bytes that kProduce and kAttach produce.
  uint64_t message_bytes;
  uint64_t attachment_bytes;
  uint64_t hint;
  bool handled;  // The handler has run by then.
  const char* text;

  // The frame that is damaged is one of several.
  bool continued() const { return message_bytes == 12000; }
};

std::ostream& operator<<(std::ostream& out, const Place& place) {
  return out << place.name;
}

constexpr bool kClient = true;
constexpr bool kServer = false;
constexpr TestMethod kEcho = TestMethod::kEcho;
constexpr TestMethod kProduce = TestMethod::kProduce;
constexpr TestMethod kAttach = TestMethod::kAttach;
constexpr ibv_wr_opcode kSend = IBV_WR_SEND;
constexpr ibv_wr_opcode kRead = IBV_WR_RDMA_READ;
constexpr ibv_wr_opcode kWrite = IBV_WR_RDMA_WRITE;

const Place kPlaces[] = {
    // A frame: its header, its credits, its message, and its checksums.
    {"RequestMethod", kClient, kSend, 1000, 1200, 17, kEcho, 1000, 0, 0, false,
     "REQUEST by its header"},
    {"RequestCredits", kClient, kSend, 1000, 1200, 5, kEcho, 1000, 0, 0, false,
     "REQUEST by its header"},
    {"RequestLength", kClient, kSend, 1000, 1200, 12, kEcho, 1000, 0, 0, false,
     "REQUEST by its header"},
    {"RequestMessage", kClient, kSend, 1000, 1200, 500, kEcho, 1000, 0, 0,
     false, "REQUEST by its header"},
    {"RequestAttachment", kClient, kSend, 1000, 1200, 900, kEcho, 400, 600, 0,
     false, "REQUEST by its header"},
    {"RequestChecksum", kClient, kSend, 1064 + kSums, 1064 + kSums,
     1064 + kSums - 1, kEcho, 1000, 0, 0, false, "REQUEST by its header"},
    {"RequestInline", kClient, kSend, 164 + kSums, 164 + kSums, 100, kEcho, 100,
     0, 0, false, "REQUEST by its header"},
    {"Response", kServer, kSend, 2000, 2200, 1000, kProduce, 2000, 0, 0, true,
     "RESPONSE by its header"},
    {"ResponseAttachment", kServer, kSend, 2000, 2200, 1000, kAttach, 2000, 0,
     0, true, "RESPONSE by its header"},
    // A frame that is continued.
    {"ContinuedRequest", kClient, kSend, kWhole, kWhole, 4000, kEcho, 12000, 0,
     0, false, "REQUEST by its header"},
    {"ContinuationOfRequest", kClient, kSend, 3000, 5000, 2000, kEcho, 12000, 0,
     0, false, "CONTINUATION by its header"},
    {"ContinuedResponse", kServer, kSend, kWhole, kWhole, 4000, kProduce, 12000,
     0, 0, true, "RESPONSE by its header"},
    {"ContinuationOfResponse", kServer, kSend, 3000, 5000, 2000, kProduce,
     12000, 0, 0, true, "CONTINUATION by its header"},
    // Arenas: what the server READs, in the first chunk and in a later one.
    {"ArenaMessage", kServer, kRead, kPart, kPart, 7, kEcho, kPart, 0, 0, false,
     "the message of a request, 307200 bytes"},
    {"SecondChunk", kServer, kRead, 1000, 2000, 999, kEcho,
     kBulkChunkBytes + 1000, 0, 0, false,
     "the message of a request, 1049576 bytes"},
    {"ArenaAttachment", kServer, kRead, kPart, kPart, kPart - 1, kEcho, 10,
     kPart, 0, false, "the attachment of a request, 307200 bytes"},
    {"BothInArenas", kServer, kRead, kPart, kPart, 1, kEcho, kPart + 64, kPart,
     0, false, "the attachment of a request, 307200 bytes"},
    {"FrameThatNamesAnArena", kClient, kSend, 64 + kSums, 64 + kSums, 34, kEcho,
     kPart, 0, 0, false, "REQUEST by its header"},
    // Leases: what the server WRITEs, into one that came with the request, or
    // was asked for.
    {"LeaseMessage", kServer, kWrite, kPart, kPart, 7, kProduce, kPart, 0,
     uint64_t{2} * kPart, true, "the message of a reply, 307200 bytes"},
    {"LeaseAttachment", kServer, kWrite, kPart, kPart, kPart - 1, kAttach,
     kPart, 0, uint64_t{2} * kPart, true,
     "the attachment of a reply, 307200 bytes"},
    {"LeaseAskedFor", kServer, kWrite, kPart, kPart, 7, kProduce, kPart, 0, 0,
     true, "the message of a reply, 307200 bytes"},
    {"BothInLease", kServer, kWrite, kPart, kPart, 7, kEcho, kPart + 64, kPart,
     uint64_t{3} * kPart, true, "the attachment of a reply, 307200 bytes"},
    {"ResponsePending", kServer, kSend, 24 + kSums, 24 + kSums, 17, kProduce,
     kPart, 0, 0, true, "RESPONSE_PENDING by its header"},
    {"Lease", kClient, kSend, 32 + kSums, 32 + kSums, 16, kProduce, kPart, 0, 0,
     true, "LEASE by its header"},
};

EndpointOptions WithChecksum(bool checksum) {
  EndpointOptions options = TestOptions();
  options.checksum = checksum;
  return options;
}

class TransportChecksumTest : public FaultyFixture {
 protected:
  static LoneConnection Connect(const Provider& provider,
                                const std::string& address,
                                const EndpointOptions& options) {
    absl::StatusOr<LoneConnection> connection = LoneConnection::Connect(
        provider, *base::SocketAddress::ParseNumeric(address), options);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return connection.ok() ? *std::move(connection) : LoneConnection();
  }

  static TestCall CallOf(const Place& place) {
    TestCall::Options options = With(place.method, place.hint);
    options.attachment = TestBytes(place.attachment_bytes, 3);
    return TestCall(place.method == kEcho ? TestBytes(place.message_bytes)
                                          : absl::StrCat(place.message_bytes),
                    options);
  }
};

class DamageTest : public TransportChecksumTest,
                   public testing::WithParamInterface<Place> {
 protected:
  // Has the place damaged on a connection on which so many calls were made.
  void Damage(const EndpointOptions& client_options,
              const EndpointOptions& server_options, int calls_before) {
    const Place& place = GetParam();
    // A poller may be in it when another is set, so it outlives all of them.
    FaultPlan plan;
    plan.Damage(place.opcode, place.least, place.most, place.offset);
    FaultyServer faulty_server(faulty_, server_options);
    ASSERT_TRUE(faulty_server.status().ok()) << faulty_server.status();
    TestServer sound_server(server_options);
    const Provider& provider =
        place.at_client ? faulty_.provider() : TestProvider();
    const std::string address =
        place.at_client ? sound_server.address() : faulty_server.address();
    testing_support::EchoHandler& handler =
        place.at_client ? sound_server.handler() : faulty_server.handler();
    {
      TestClient client(Connect(provider, address, client_options));
      Calls before;
      before.Start(client, calls_before, 10, With(kEcho));
      ASSERT_TRUE(before.Run(client));
      before.ExpectEchoed();

      faulty_.SetPlan(plan);
      TestCall call = CallOf(place);
      const absl::Status status = client.Run(call);
      faulty_.SetPlan(no_faults_);
      EXPECT_EQ(plan.faults().size(), 1u);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(status.message(), HasSubstr(place.text));
      EXPECT_EQ(call.ends(), 1);
      EXPECT_FALSE(call.responded());
      // The call may have run, so it must not be made again by itself.
      EXPECT_FALSE(call.unsent());
      EXPECT_FALSE(call.unprocessed());
      EXPECT_EQ(handler.calls(), calls_before + (place.handled ? 1 : 0));
      EXPECT_TRUE(client.connection().failed());
    }
    TestClient next(Connect(provider, address, client_options));
    TestCall call = CallOf(place);
    EXPECT_EQ(next.Run(call), absl::OkStatus());
    EXPECT_TRUE(next.Echo(10).ok());
  }
};

TEST_P(DamageTest, IsDataLossWhoeverWantedChecksums) {
  for (const auto& [client_wants, server_wants] :
       {std::pair(true, true), {true, false}, {false, true}}) {
    SCOPED_TRACE(absl::StrCat(client_wants, server_wants));
    Damage(WithChecksum(client_wants), WithChecksum(server_wants),
           /*calls_before=*/64);
  }
}

// There is no credit for a BYE: those that there would be stand in the frame
// that is damaged.
TEST_P(DamageTest, IsDataLossInTheFirstCallOfAConnection) {
  // Without credits nothing is continued.
  if (GetParam().continued()) return;
  Damage(WithChecksum(true), WithChecksum(false), /*calls_before=*/0);
}

INSTANTIATE_TEST_SUITE_P(EveryPlace, DamageTest, testing::ValuesIn(kPlaces),
                         [](const auto& tested) {
                           return std::string(tested.param.name);
                         });

// The control of the tests above: without checksums, nobody notices the damage.
TEST_F(TransportChecksumTest, WithoutThemDamagePasses) {
  FaultPlan plan;
  plan.Damage(kSend, 1064, 1064, 500);
  TestServer server(WithChecksum(false));
  TestClient client(
      Connect(faulty_.provider(), server.address(), WithChecksum(false)));
  faulty_.SetPlan(plan);
  TestCall call(TestBytes(1000), With(kEcho));
  EXPECT_TRUE(client.Run(call).ok());
  faulty_.SetPlan(no_faults_);
  EXPECT_EQ(plan.faults().size(), 1u);
  EXPECT_NE(call.reply(), call.sent());
}

TEST_F(TransportChecksumTest, CallsOfEverySizeComeBack) {
  EndpointOptions options = WithChecksum(true);
  options.continued_bytes_max = kContinuedBytesMax;
  TestServer server(options);
  TestClient client(server.address(), options);
  const uint32_t room = kBufferBytes - sizeof(FrameHeader);
  for (const uint32_t full :
       {150 + kSums, 1 * room, 2 * room, kContinuedBytesMax, 1u << 20}) {
    for (uint32_t less = 0; less<150; less += full> room ? 7 : 1) {
      for (const uint64_t hint : {0u, 2u << 20}) {
        TestCall::Options call_options = With(kEcho, hint);
        EXPECT_TRUE(client.Echo(full - less, call_options).ok()) << full - less;
        call_options.metadata = "some";
        call_options.attachment = TestBytes(full - less, 5);
        TestCall call(TestBytes(10), call_options);
        ASSERT_EQ(client.Run(call), absl::OkStatus()) << full - less;
        EXPECT_TRUE(call.reply() == call.sent());
        EXPECT_TRUE(call.reply_attachment() == call_options.attachment);
        EXPECT_EQ(call.reply_metadata(), "some");
      }
    }
  }
}

TEST_F(TransportChecksumTest, OpenCallsEndWithItAndThoseThatWaitAreUnsent) {
  TestServer server(WithChecksum(true));
  TestClient client(
      Connect(faulty_.provider(), server.address(), WithChecksum(false)));
  Calls held;
  held.Start(client, kDefaultMaxOpenCalls - 1, 10, With(TestMethod::kHold));
  ASSERT_TRUE(client.RunUntil([&server] {
    return server.handler().held() ==
           static_cast<int>(kDefaultMaxOpenCalls - 1);
  }));
  FaultPlan plan;
  plan.Damage(kSend, 1000, 1200, 500);
  faulty_.SetPlan(plan);
  Calls last;
  last.Start(client, 2, 1000, With(kEcho));
  ASSERT_TRUE(last.Run(client));
  faulty_.SetPlan(no_faults_);
  last.ExpectFailed(absl::StatusCode::kDataLoss);
  EXPECT_FALSE(last[0].unsent());
  EXPECT_TRUE(last[1].unsent());
  ASSERT_TRUE(held.Run(client));
  held.ExpectFailed(absl::StatusCode::kDataLoss);
  EXPECT_FALSE(held[0].unsent());
}

// A client that finds the damage says so to the server, which tells its user.
TEST_F(TransportChecksumTest, TheServerHearsOfItAndSaysSo) {
  testing::internal::CaptureStderr();
  {
    FaultPlan plan;
    plan.Damage(kSend, 2000, 2200, 1000);
    FaultyServer server(faulty_, WithChecksum(false));
    TestClient client(
        Connect(TestProvider(), server.address(), WithChecksum(true)));
    EXPECT_TRUE(
        client.RunUntil([&server] { return server.connections() == 1; }));
    faulty_.SetPlan(plan);
    TestCall call("2000", With(kProduce));
    EXPECT_EQ(client.Run(call).code(), absl::StatusCode::kDataLoss);
    faulty_.SetPlan(no_faults_);
    EXPECT_TRUE(
        client.RunUntil([&server] { return server.connections() == 0; }));
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("bytes were damaged on their way"));
  EXPECT_THAT(said, HasSubstr("RESPONSE by its header"));
}

}  // namespace
}  // namespace verbena::transport
