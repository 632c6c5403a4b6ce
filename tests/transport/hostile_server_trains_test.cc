// Servers that send malformed trains: the open calls end with a Status that
// says what was wrong. Calls that the train answered before that are answered.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/transport/hostile_server_fixture.h"
#include "tests/transport/raw_peer.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

class HostileServerTrainsTest : public HostileServerFixture {
 protected:
  static std::vector<HelloOption> Trains() { return {{kOptionTrains, ""}}; }

  // Connects to a server whose WELCOME has the options `welcome`, and starts
  // `count` calls.
  void OpenWith(size_t count, const std::vector<HelloOption>& welcome,
                const EndpointOptions& options = TestOptions()) {
    calls_.clear();
    requests_.clear();
    Opened(options, {}, welcome);
    for (size_t i = 0; i < count; ++i) {
      calls_.push_back(std::make_unique<TestCall>("x"));
      requests_.push_back(StartAndReceive(*calls_.back()));
    }
  }
  // Return the answer to a call: as the first frame of a SEND, and behind
  // another frame.
  std::string Answer(size_t call) {
    return FrameText(Response(requests_[call], 2), "ok");
  }
  std::string Later(size_t call) {
    return FrameText(Behind(Response(requests_[call], 2)), "ok");
  }
  // Sends the answer to the first call with `rest` behind it. Expects that this
  // call succeeds, and that the second one ends with the connection and `text`.
  void ExpectEndBehindAnAnswer(const std::string& rest,
                               const std::string& text) {
    ASSERT_TRUE(raw_->Send(TrainText({Answer(0), rest})).ok());
    ASSERT_TRUE(client_->RunUntilDone(*calls_[0]));
    EXPECT_EQ(calls_[0]->status(), absl::OkStatus());
    EXPECT_EQ(calls_[0]->reply(), "ok");
    ExpectEnd(*calls_[1], text);
    EXPECT_EQ(calls_[0]->ends(), 1);
  }

  std::vector<std::unique_ptr<TestCall>> calls_;
  std::vector<RequestHeader> requests_;
};

TEST_F(HostileServerTrainsTest, EndsCallsForATrainThatNobodyAgreedOn) {
  // If only one side takes trains, nobody may send one.
  for (const bool client : {false, true}) {
    EndpointOptions options = TestOptions();
    options.trains = client;
    OpenWith(2, client ? std::vector<HelloOption>() : Trains(), options);
    ASSERT_TRUE(raw_->Send(TrainText({Answer(0), Later(1)})).ok());
    ASSERT_TRUE(client_->RunUntilDone(*calls_[1]));
    EXPECT_EQ(calls_[0]->status().code(), absl::StatusCode::kInternal);
    ExpectEnd(*calls_[1], "length is not header_bytes + body_bytes");
  }
}

TEST_F(HostileServerTrainsTest, EndsCallsForAnAnswerToACallThatIsNotOpen) {
  for (const uint32_t wrong : {1u << 15, 0x10000u, 0xffffu}) {
    OpenWith(2, Trains());
    ResponseHeader response = Behind(Response(requests_[1]));
    response.frame.call_id ^= wrong;
    ExpectEndBehindAnAnswer(FrameText(response), "call that is not open");
  }
}

TEST_F(HostileServerTrainsTest, EndsCallsForASecondAnswerInATrain) {
  OpenWith(2, Trains());
  ExpectEndBehindAnAnswer(Later(0), "call that is not open");
}

TEST_F(HostileServerTrainsTest, EndsCallsForMoreFramesThanATrainMayHave) {
  OpenWith(kTrainFrames + 1, Trains());
  std::vector<std::string> frames = {Answer(0)};
  for (size_t i = 1; i <= kTrainFrames; ++i) frames.push_back(Later(i));
  ASSERT_TRUE(raw_->Send(TrainText(frames)).ok());
  ASSERT_TRUE(client_->RunUntilDone(*calls_.back()));
  for (size_t i = 0; i < kTrainFrames; ++i) {
    EXPECT_EQ(calls_[i]->status(), absl::OkStatus());
  }
  ExpectEnd(*calls_.back(), "more frames than may be");
}

TEST_F(HostileServerTrainsTest, EndsCallsForATrainThatIsCut) {
  for (const size_t bytes : {1, 15, 16, 31, 32, 33}) {
    OpenWith(2, Trains());
    ExpectEndBehindAnAnswer(Later(1).substr(0, bytes),
                            "a train ends in the middle of a frame");
  }
  ResponseHeader response;
  for (const uint32_t bytes : {UINT32_MAX, UINT32_MAX - 31}) {
    OpenWith(2, Trains());
    response = Behind(Response(requests_[1]));
    response.frame.header_bytes = sizeof(response);
    response.message_bytes = response.frame.body_bytes = bytes;
    ExpectEndBehindAnAnswer(
        std::string(reinterpret_cast<const char*>(&response), sizeof(response)),
        "a train ends in the middle of a frame");
  }
}

TEST_F(HostileServerTrainsTest, EndsCallsForFramesThatHaveNoPlaceInATrain) {
  OpenWith(2, Trains());
  ExpectEndBehindAnAnswer(FrameText(Behind(Pending(requests_[1], 100000))),
                          "neither REQUEST nor RESPONSE");
  OpenWith(2, Trains());
  ExpectEndBehindAnAnswer(FrameText(raw_->Header(FrameType::kPing)),
                          "neither REQUEST nor RESPONSE");
  OpenWith(2, Trains());
  RequestHeader request = {};
  request.frame.type = FrameType::kRequest;
  ExpectEndBehindAnAnswer(FrameText(request), "only clients send");
}

TEST_F(HostileServerTrainsTest, EndsCallsForCreditsBehindTheFirstFrame) {
  OpenWith(2, Trains());
  ExpectEndBehindAnAnswer(Answer(1), "has credit fields");
  OpenWith(2, Trains());
  ResponseHeader response = Behind(Response(requests_[1], 2));
  response.frame.flags = kFlagGrantRead;
  ExpectEndBehindAnAnswer(FrameText(response, "ok"), "has credit fields");
}

// Verbena's server puts only plain RESPONSEs into trains. Other implementations
// may put any RESPONSE there.
TEST_F(HostileServerTrainsTest, MaySendEveryAnswerInATrain) {
  OpenWith(4, Trains());
  ResponseHeader failed = Behind(Response(requests_[0]));
  failed.code = static_cast<uint32_t>(absl::StatusCode::kNotFound);
  failed.status_message_bytes = 5;
  failed.frame.credit_limit = raw_->Header(FrameType::kResponse).credit_limit;
  ResponseHeader attached = Behind(Response(requests_[1], 2));
  attached.attachment_bytes = 3;
  attached.metadata_bytes = 4;
  ResponseHeader unprocessed = Behind(Response(requests_[2]));
  unprocessed.code = static_cast<uint32_t>(absl::StatusCode::kUnavailable);
  unprocessed.frame.flags = kFlagUnprocessed;
  ASSERT_TRUE(raw_->Send(TrainText({FrameText(failed, "where"),
                                    FrameText(attached, "metaokyes"),
                                    FrameText(unprocessed), Later(3)},
                                   '\xff'))
                  .ok());
  ASSERT_TRUE(client_->RunUntilDone(*calls_[3]));
  EXPECT_EQ(calls_[0]->status(), absl::NotFoundError("where"));
  EXPECT_EQ(calls_[1]->reply(), "ok");
  EXPECT_EQ(calls_[1]->reply_metadata(), "meta");
  EXPECT_EQ(calls_[1]->reply_attachment(), "yes");
  EXPECT_TRUE(calls_[2]->unprocessed());
  EXPECT_EQ(calls_[3]->reply(), "ok");
  EXPECT_FALSE(client_->connection().failed());
}

// A call that cancels another call when its reply comes.
class CancellingCall final : public ClientCall {
 public:
  CancellingCall(ClientConnection& connection, TestCall& other)
      : connection_(connection), other_(other) {
    request_.method_id = 1;
  }
  void WriteRequest(uint8_t* /*out*/) override {}
  void OnResponse(const CallResponse& /*response*/) override {
    done_ = true;
    connection_.Cancel(&other_, absl::CancelledError("enough"));
  }
  void OnFailed(const absl::Status& /*status*/) override { done_ = true; }
  bool done() const { return done_; }

 private:
  ClientConnection& connection_;
  TestCall& other_;
  bool done_ = false;
};

TEST_F(HostileServerTrainsTest, MayAnswerACallThatWasCancelledAmidTheTrain) {
  OpenWith(2, Trains());
  CancellingCall cancelling(client_->connection(), *calls_[0]);
  client_->connection().Start(&cancelling);
  const absl::StatusOr<std::string> request =
      raw_->Receive(FrameType::kRequest);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto first = HeaderOf<RequestHeader>(*request);
  ASSERT_TRUE(
      raw_->Send(TrainText({FrameText(Response(first)), Later(0), Later(1)}))
          .ok());
  ASSERT_TRUE(client_->RunUntilDone(*calls_[1]));
  EXPECT_TRUE(cancelling.done());
  EXPECT_EQ(calls_[0]->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls_[0]->ends(), 1);
  EXPECT_EQ(calls_[1]->status(), absl::OkStatus());
  EXPECT_FALSE(client_->connection().failed());
}

}  // namespace
}  // namespace verbena::transport
