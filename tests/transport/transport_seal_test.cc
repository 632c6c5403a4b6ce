// Sealed connections: one bit is turned on its way, at each place where bytes
// of a call can be. The call ends with DATA_LOSS, no handler and no caller sees
// the bytes, the connection ends, and the next one is good.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/credentials/tls.h"
#include "tests/testing/test_tls.h"
#include "tests/transport/faulty_fixture.h"
#include "tests/transport/transport_fixture.h"
#include "transport/faulty/fault_plan.h"
#include "transport/wire/frame.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;
using testing_support::TestProvider;

constexpr uint32_t kSealed = kSealedFrameBytes;
constexpr uint32_t kPart = 300 * 1024;  // Two chunks.
constexpr uint32_t kTags = 64;          // Before a part of a request.
constexpr TestMethod kEcho = TestMethod::kEcho;
constexpr TestMethod kProduce = TestMethod::kProduce;
constexpr TestMethod kAttach = TestMethod::kAttach;
constexpr ibv_wr_opcode kSend = IBV_WR_SEND;
constexpr ibv_wr_opcode kRead = IBV_WR_RDMA_READ;
constexpr ibv_wr_opcode kWrite = IBV_WR_RDMA_WRITE;

// A call, and the work request whose bytes are damaged.
struct Place {
  const char* name;
  bool at_client;  // Whether the client posts the work request.
  ibv_wr_opcode opcode;
  uint32_t bytes;  // Length of the work request.
  uint32_t offset;
  TestMethod method;
  // The request's message, or the bytes that kProduce and kAttach produce.
  uint64_t message_bytes;
  uint64_t attachment_bytes;
  uint64_t hint;
  bool handled;  // The handler has run by then.
  const char* text;
};

std::ostream& operator<<(std::ostream& out, const Place& place) {
  return out << place.name;
}

const Place kPlaces[] = {
    {"RequestHeader", true, kSend, 1064 + kSealed, 5, kEcho, 1000, 0, 0, false,
     "a frame of 1088 bytes"},
    {"RequestMessage", true, kSend, 1064 + kSealed, 500, kEcho, 1000, 0, 0,
     false, "a frame of 1088 bytes"},
    {"RequestTag", true, kSend, 1064 + kSealed, 1064 + kSealed - 1, kEcho, 1000,
     0, 0, false, "a frame of 1088 bytes"},
    {"FirstChunk", true, kSend, 64 + kSealed, 64, kEcho, kPart, 0, 0, false,
     "a frame of 88 bytes"},
    {"RequestInline", true, kSend, 164 + kSealed, 100, kEcho, 100, 0, 0, false,
     "a frame of 188 bytes"},
    {"Response", false, kSend, 2032 + kSealed, 1000, kProduce, 2000, 0, 0, true,
     "a frame of 2056 bytes"},
    // A part of a request: its tags with the first chunk, then the second.
    {"RequestTags", false, kRead, kTags + kSealChunkBytes, 3, kEcho, kPart, 0,
     0, false, "a request of 307200 bytes"},
    {"RequestChunk", false, kRead, kTags + kSealChunkBytes, kTags + 7, kEcho,
     kPart, 0, 0, false, "a request of 307200 bytes"},
    {"SecondChunk", false, kRead, kPart - kSealChunkBytes, 9, kEcho, kPart, 0,
     0, false, "a request of 307200 bytes"},
    {"RequestAttachment", false, kRead, kTags + kSealChunkBytes, kTags, kEcho,
     10, kPart, 0, false, "a request of 307200 bytes"},
    // A part of a reply: its first chunk, then the second with both tags.
    {"ReplyChunk", false, kWrite, kSealChunkBytes, 7, kProduce, kPart, 0,
     uint64_t{2} * kPart, true, "the message of a reply of 307200 bytes"},
    {"ReplyTags", false, kWrite, kPart - kSealChunkBytes + 32,
     kPart - kSealChunkBytes + 31, kProduce, kPart, 0, uint64_t{2} * kPart,
     true, "the message of a reply of 307200 bytes"},
    {"ReplyAttachment", false, kWrite, kSealChunkBytes, 0, kAttach, kPart, 0,
     uint64_t{2} * kPart, true, "the attachment of a reply of 307200 bytes"},
    {"LeaseAskedFor", false, kWrite, kSealChunkBytes, 7, kProduce, kPart, 0, 0,
     true, "the message of a reply of 307200 bytes"},
};

class TransportSealTest : public FaultyFixture {
 protected:
  TransportSealTest() {
    options_.credentials =
        *TlsCredentials({.certificate_provider = testing_support::Provider(
                             made_.authority.certificate, {})});
    server_credentials_ = *TlsServerCredentials(
        {.certificate_provider =
             testing_support::Provider("", {made_.server})});
  }
  LoneConnection Connect(const Provider& provider,
                         const std::string& address) const {
    absl::StatusOr<LoneConnection> connection = LoneConnection::Connect(
        provider, *base::SocketAddress::ParseNumeric(address), options_);
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

  const testing_support::TestCertificates made_ =
      testing_support::MakeTestCertificates();
  EndpointOptions options_ = TestOptions();
  std::shared_ptr<const ServerCredentials> server_credentials_;
};

class SealDamageTest : public TransportSealTest,
                       public testing::WithParamInterface<Place> {};

TEST_P(SealDamageTest, IsDataLoss) {
  const Place& place = GetParam();
  FaultPlan plan;
  plan.Damage(place.opcode, place.bytes, place.bytes, place.offset);
  FaultyServer server(faulty_, TestOptions(), server_credentials_);
  ASSERT_TRUE(server.status().ok()) << server.status();
  const Provider& provider =
      place.at_client ? faulty_.provider() : TestProvider();
  {
    TestClient client(Connect(provider, server.address()));
    Calls before;
    before.Start(client, 64, 10, With(kEcho));
    ASSERT_TRUE(before.Run(client));
    before.ExpectEchoed();

    faulty_.SetPlan(plan);
    TestCall call = CallOf(place);
    const absl::Status status = client.Run(call);
    faulty_.SetPlan(no_faults_);
    EXPECT_EQ(plan.faults().size(), 1u);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(place.text));
    EXPECT_THAT(status.message(), HasSubstr("is not as the peer sealed it"));
    EXPECT_EQ(call.ends(), 1);
    EXPECT_FALSE(call.responded());
    // The call may have run, so it must not be made again by itself.
    EXPECT_FALSE(call.unsent());
    EXPECT_EQ(server.handler().calls(), 64 + (place.handled ? 1 : 0));
    EXPECT_TRUE(client.connection().failed());
  }
  TestClient next(Connect(provider, server.address()));
  TestCall call = CallOf(place);
  EXPECT_EQ(next.Run(call), absl::OkStatus());
  EXPECT_TRUE(next.Echo(10).ok());
}

INSTANTIATE_TEST_SUITE_P(EveryPlace, SealDamageTest, testing::ValuesIn(kPlaces),
                         [](const auto& tested) {
                           return std::string(tested.param.name);
                         });

// Chunks end at multiples of a chunk, and frames at those of what fits one.
TEST_F(TransportSealTest, CallsOfEverySizeComeBack) {
  TestServer server(options_, /*pollers=*/1, server_credentials_);
  TestClient client(server.address(), options_);
  const uint32_t room = kBufferBytes - kSealed;
  for (const uint32_t full : {room, 2 * room, kSealChunkBytes,
                              2 * kSealChunkBytes, kSealChunkBytes * 4}) {
    for (const uint32_t less : {0u, 1u, 31u, 32u, 33u, 63u, 64u, 65u}) {
      for (const uint64_t hint : {0u, 2u << 20}) {
        TestCall::Options call_options = With(kEcho, hint);
        call_options.metadata = "some";
        call_options.attachment = TestBytes(full + 2 - less, 5);
        TestCall call(TestBytes(full + 1 - less), call_options);
        ASSERT_EQ(client.Run(call), absl::OkStatus()) << full - less;
        EXPECT_TRUE(call.reply() == call.sent());
        EXPECT_TRUE(call.reply_attachment() == call_options.attachment);
        EXPECT_EQ(call.reply_metadata(), "some");
      }
    }
  }
}

}  // namespace
}  // namespace verbena::transport
