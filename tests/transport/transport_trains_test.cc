// Calls that travel together in one SEND, between peers that agree on that and
// peers that do not.

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/transport/hostile_client_fixture.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "tests/transport/transport_fixture.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/limits.h"
#include "transport/polling/posted_function.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

constexpr int kCalls = 32;

// The options of a HELLO or WELCOME whose sender takes trains.
std::vector<HelloOption> Trains() { return {{kOptionTrains, ""}}; }

EndpointOptions WithTrains(bool trains) {
  EndpointOptions options = TestOptions();
  options.trains = trains;
  return options;
}

// Starts `count` calls in one round of the client's poller.
void StartInOneRound(TestClient& client, Calls& calls, int count,
                     uint64_t bytes, const TestCall::Options& options = {}) {
  PostFunction(client.connection().poller(),
               [&calls, &client, count, bytes, options] {
                 calls.Start(client, count, bytes, options);
               });
  client.connection().poller().PollOnce();
}

// --- How many SENDs ----------------------------------------------------------

// A client, and a raw server that sees each SEND of it.
class ClientTrainsTest : public HostileServerFixture {
 protected:
  // Receives SENDs until they have brought `count` REQUESTs. Returns how many
  // frames each of them had.
  std::vector<size_t> SendsOf(RawPeer& raw, size_t count) {
    std::vector<size_t> sends;
    while (requests_.size() < count) {
      const absl::StatusOr<std::string> sent = raw.Receive(FrameType::kRequest);
      EXPECT_TRUE(sent.ok()) << sent.status();
      if (!sent.ok()) break;
      const std::vector<std::string> frames = FramesOf(*sent);
      for (const std::string& frame : frames) {
        requests_.push_back(HeaderOf<RequestHeader>(frame));
      }
      sends.push_back(frames.size());
    }
    return sends;
  }

  std::vector<RequestHeader> requests_;
};

TEST_F(ClientTrainsTest, CallsOfOneRoundTravelInFullTrains) {
  RawPeer& raw = Opened(TestOptions(), {}, Trains());
  Calls calls;
  StartInOneRound(*client_, calls, kCalls, 10);
  EXPECT_EQ(SendsOf(raw, kCalls),
            std::vector<size_t>(kCalls / kTrainFrames, kTrainFrames));
  // SENDs of one to eight RESPONSEs answer the calls.
  std::vector<std::string> frames;
  for (const RequestHeader& request : requests_) {
    ResponseHeader response = Response(request, 10);
    if (!frames.empty()) response = Behind(response);
    const size_t index = static_cast<size_t>(&request - requests_.data());
    frames.push_back(FrameText(response, calls[index].sent()));
    if (frames.size() < 1 + index % kTrainFrames) continue;
    ASSERT_TRUE(SendWhilePolling(TrainText(frames)).ok());
    frames.clear();
  }
  if (!frames.empty()) {
    ASSERT_TRUE(SendWhilePolling(TrainText(frames)).ok());
  }
  ASSERT_TRUE(calls.Run(*client_));
  calls.ExpectEchoed();
}

TEST_F(ClientTrainsTest, OfSeveralFramesOnlyTheFirstSpeaksOfCredits) {
  RawPeer& raw = Opened(TestOptions(), {}, Trains());
  Calls calls;
  StartInOneRound(*client_, calls, kTrainFrames, 13);
  EXPECT_EQ(SendsOf(raw, kTrainFrames), std::vector<size_t>{kTrainFrames});
  for (const RequestHeader& request : requests_) {
    const bool first = &request == requests_.data();
    EXPECT_EQ(request.frame.credit_limit != 0, first);
    EXPECT_EQ(request.frame.flags & ~kFlowFlags, 0);
    EXPECT_TRUE(first || request.frame.flags == 0);
  }
  raw.Disconnect();
  ASSERT_TRUE(calls.Run(*client_));
}

// No doorbell waits for a round that nobody has begun.
TEST_F(ClientTrainsTest, ACallOfNoRoundGoesAtOnce) {
  RawPeer& raw = Opened(TestOptions(), {}, Trains());
  Calls calls;
  for (int i = 0; i < 3; ++i) {
    calls.Start(*client_, 1, 10, With(TestMethod::kEcho));
    EXPECT_EQ(SendsOf(raw, static_cast<size_t>(i) + 1), std::vector<size_t>{1});
  }
  raw.Disconnect();
  ASSERT_TRUE(calls.Run(*client_));
}

TEST_F(ClientTrainsTest, TrainsAreNoLongerThanAFrame) {
  RawPeer& raw = Opened(TestOptions(), {}, Trains());
  const uint32_t half = kBufferBytes / 2 - sizeof(RequestHeader);
  for (const uint32_t bytes : {half, half + 1}) {
    requests_.clear();
    Calls calls;
    StartInOneRound(*client_, calls, 2, bytes);
    EXPECT_EQ(SendsOf(raw, 2), bytes == half ? std::vector<size_t>{2}
                                             : (std::vector<size_t>{1, 1}));
    for (const RequestHeader& request : requests_) {
      ASSERT_TRUE(SendWhilePolling(FrameText(Response(request))).ok());
    }
    ASSERT_TRUE(calls.Run(*client_));
  }
}

TEST_F(ClientTrainsTest, EveryCallGoesAloneToAServerThatDoesNotTakeTrains) {
  RawPeer& raw = Opened();
  Calls calls;
  StartInOneRound(*client_, calls, kCalls, 10);
  EXPECT_EQ(SendsOf(raw, kCalls), std::vector<size_t>(kCalls, 1));
  raw.Disconnect();
  ASSERT_TRUE(calls.Run(*client_));
}

TEST_F(ClientTrainsTest, EveryCallGoesAloneIfTheClientDoesNotTakeTrains) {
  RawPeer& raw = Opened(WithTrains(false), {}, Trains());
  Calls calls;
  StartInOneRound(*client_, calls, kCalls, 10);
  EXPECT_EQ(SendsOf(raw, kCalls), std::vector<size_t>(kCalls, 1));
  raw.Disconnect();
  ASSERT_TRUE(calls.Run(*client_));
}

TEST_F(ClientTrainsTest, AsksForTrainsOnlyIfItTakesThem) {
  for (const bool trains : {false, true}) {
    RawPeer& raw = Incoming(WithTrains(trains));
    ASSERT_TRUE(raw.Accept(EncodeConnectReply({raw.Limits()})).ok());
    const absl::StatusOr<std::string> hello = raw.Receive(FrameType::kHello);
    ASSERT_TRUE(hello.ok()) << hello.status();
    const std::string body = hello->substr(sizeof(FrameHeader));
    const auto options = DecodeOptions(
        {reinterpret_cast<const uint8_t*>(body.data()), body.size()});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(FindOption(*options, kOptionTrains) != nullptr, trains);
    ASSERT_TRUE(raw.Send(FrameText(raw.Header(FrameType::kWelcome))).ok());
    Client();
    client_.reset();
  }
}

// A server, and a raw client that sees each SEND of it.
class ServerTrainsTest : public HostileClientFixture {
 protected:
  ServerTrainsTest() = default;
  explicit ServerTrainsTest(const EndpointOptions& options)
      : HostileClientFixture(options) {}

  // Asks for `calls` echoes, `together` of them in each SEND. Returns how many
  // SENDs bring the answers.
  static int AnswersTo(RawPeer& raw, uint32_t calls, uint32_t together) {
    std::vector<std::string> frames;
    for (uint32_t i = 0; i < calls; ++i) {
      RequestHeader request = raw.InlineRequest(i, kEcho, 10);
      if (!frames.empty()) request = Behind(request);
      frames.push_back(FrameText(request, TestBytes(10, i)));
      if (frames.size() < together) continue;
      EXPECT_TRUE(raw.Send(TrainText(frames)).ok());
      frames.clear();
    }
    int sends = 0;
    for (uint32_t answers = 0; answers < calls; ++sends) {
      const absl::StatusOr<std::string> sent =
          raw.Receive(FrameType::kResponse);
      EXPECT_TRUE(sent.ok()) << sent.status();
      if (!sent.ok()) break;
      bool first = true;
      for (const std::string& frame : FramesOf(*sent)) {
        const auto header = HeaderOf<ResponseHeader>(frame);
        EXPECT_EQ(header.frame.call_id, answers);
        EXPECT_EQ(header.frame.credit_limit != 0, first);
        EXPECT_EQ(frame.substr(sizeof(header)), TestBytes(10, answers));
        ++answers;
        first = false;
      }
    }
    return sends;
  }
};

TEST_F(ServerTrainsTest, AnswersOfOneRoundTravelInFullTrains) {
  RawPeer& raw = Opened({}, Trains());
  EXPECT_EQ(AnswersTo(raw, kCalls, kTrainFrames),
            kCalls / static_cast<int>(kTrainFrames));
}

TEST_F(ServerTrainsTest, EveryAnswerGoesAloneToAClientThatDoesNotTakeTrains) {
  EXPECT_EQ(AnswersTo(Opened(), kCalls, 1), kCalls);
}

class ServerWithoutTrainsTest : public ServerTrainsTest {
 protected:
  ServerWithoutTrainsTest() : ServerTrainsTest(WithTrains(false)) {}
};

TEST_F(ServerWithoutTrainsTest, SendsEveryAnswerAlone) {
  EXPECT_EQ(AnswersTo(Opened({}, Trains()), kCalls, 1), kCalls);
}

// --- What comes back ---------------------------------------------------------

// The options of a client and of its server.
struct Pair {
  bool client_trains = true;
  bool server_trains = true;
  bool checksum = false;
};

class TrainsTest : public testing::TestWithParam<Pair> {
 protected:
  static EndpointOptions Options(bool trains) {
    EndpointOptions options = WithTrains(trains);
    options.checksum = GetParam().checksum;
    return options;
  }

  TestServer server_{Options(GetParam().server_trains)};
  TestClient client_{server_.address(), Options(GetParam().client_trains)};
};

INSTANTIATE_TEST_SUITE_P(Pairs, TrainsTest,
                         testing::Values(Pair{}, Pair{.client_trains = false},
                                         Pair{.server_trains = false},
                                         Pair{.checksum = true}));

TEST_P(TrainsTest, ManySmallCallsComeBack) {
  for (int round = 0; round < 20; ++round) {
    Calls calls;
    StartInOneRound(client_, calls, 2 * kDefaultMaxOpenCalls, 20);
    ASSERT_TRUE(calls.Run(client_));
    calls.ExpectEchoed();
  }
}

// Calls of all kinds and sizes, each with what should come of it.
class MixedCalls {
 public:
  explicit MixedCalls(TestClient& client) : client_(client) {}
  ~MixedCalls() {
    for (const auto& call : calls_) {
      if (!call->done()) client_.connection().Cancel(call.get(), GivenUp());
    }
  }

  void Start(uint32_t index) {
    // Sizes near the limits of inline SENDs, of trains and of frames.
    constexpr uint32_t kRoom = kBufferBytes - sizeof(RequestHeader);
    constexpr uint32_t kSizes[] = {
        0,         1,     7,         8,         24,    100,       156, 157,
        192,       500,   1000,      2000,      4032,  4033,      22,  10,
        kRoom - 8, kRoom, kRoom - 1, kRoom + 1, kLong, kRoom - 80};
    TestCall::Options options;
    switch (index % 7) {
      case 3:
        options.method = TestMethod::kFail;
        break;
      case 4:
        options.metadata = "metadata of a call";
        break;
      case 5:
        options = Until(TestMethod::kEchoWorker, kTestTimeout);
        break;
      case 6:
        options = Until(TestMethod::kHoldStubborn, absl::Milliseconds(1));
        break;
      default:
        break;
    }
    const uint32_t bytes = kSizes[index % std::size(kSizes)];
    calls_.push_back(
        std::make_unique<TestCall>(TestBytes(bytes, index), options));
    kinds_.push_back(options);
    client_.Start(*calls_.back());
  }
  bool Run() {
    return client_.RunUntil([this] {
      for (const auto& call : calls_) {
        if (!call->done()) return false;
      }
      return true;
    });
  }
  void ExpectEachAsItShouldBe() const {
    for (size_t i = 0; i < calls_.size(); ++i) {
      SCOPED_TRACE(i);
      const TestCall& call = *calls_[i];
      EXPECT_EQ(call.ends(), 1);
      switch (kinds_[i].method) {
        case TestMethod::kFail:
          EXPECT_EQ(call.status().code(), absl::StatusCode::kAborted);
          EXPECT_EQ(call.status().message().substr(0, 100),
                    call.sent().substr(0, 100));
          break;
        case TestMethod::kHoldStubborn:
          EXPECT_EQ(call.status().code(), absl::StatusCode::kDeadlineExceeded);
          break;
        default:
          EXPECT_EQ(call.status(), absl::OkStatus());
          EXPECT_TRUE(call.reply() == call.sent());
          EXPECT_EQ(call.reply_metadata(), kinds_[i].metadata);
      }
    }
  }

 private:
  static constexpr uint32_t kLong = 30000;

  TestClient& client_;
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::vector<TestCall::Options> kinds_;
};

TEST_P(TrainsTest, CallsOfEveryKindComeBackEachAsItShouldBe) {
  for (uint32_t round = 0; round < 10; ++round) {
    MixedCalls calls(client_);
    PostFunction(client_.connection().poller(), [&calls, round] {
      for (uint32_t i = 0; i < 100; ++i) calls.Start(i + 100 * round);
    });
    client_.connection().poller().PollOnce();
    ASSERT_TRUE(calls.Run());
    calls.ExpectEachAsItShouldBe();
  }
  server_.handler().Release();
  EXPECT_EQ(client_.Echo(100), absl::OkStatus());
}

}  // namespace
}  // namespace verbena::transport
