// Calls that certainly never ran are made again; others are not.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using transport::FrameText;
using transport::FrameType;
using transport::HeaderOf;
using transport::RawListener;
using transport::RawPeer;
using transport::RequestHeader;
using transport::ResponseHeader;

// Servers that the test plays, and a channel to them.
class TransparentRetryTest : public EndToEndTest {
 protected:
  // An echo under way, with an attachment if it is not empty.
  class Call {
   public:
    Call(EndToEnd::Stub* stub, std::string payload, Buffer attachment = {},
         absl::Duration timeout = absl::Minutes(2), bool patient = false) {
      request_.set_payload(std::move(payload));
      context_.set_timeout(timeout);
      context_.set_wait_for_ready(patient);
      if (!attachment.empty()) {
        context_.set_request_attachment(std::move(attachment));
      }
      stub->async()->Echo(&context_, &request_, &reply_,
                          [this](absl::Status status) {
                            status_ = std::move(status);
                            done_.Done();
                          });
    }

    const absl::Status& Status() {
      if (!waited_) done_.Wait();
      waited_ = true;
      return status_;
    }
    void ExpectEchoed() {
      EXPECT_EQ(Status(), absl::OkStatus()) << request_.payload();
      EXPECT_EQ(reply_.payload(), request_.payload());
      EXPECT_TRUE(context_.response_attachment() ==
                  context_.request_attachment());
    }
    void Cancel() { context_.TryCancel(); }

   private:
    ClientContext context_;
    EchoRequest request_;
    EchoReply reply_;
    absl::Status status_;
    Countdown done_{1};
    bool waited_ = false;
  };

  TransparentRetryTest()
      : listener_(*RawListener::Create()),
        channel_(CreateChannel(listener_->address())),
        stub_(EndToEnd::NewStub(channel_)) {}

  // The server's end of the next connection. With one credit it can be sent one
  // REQUEST, and further ones wait.
  std::unique_ptr<RawPeer> Accepted(uint16_t credits = 64) {
    RawPeer::Options options;
    options.credits = credits;
    std::unique_ptr<RawPeer> server = *listener_->Next(options);
    EXPECT_EQ(server->AcceptAndWelcome(), absl::OkStatus());
    return server;
  }

  static std::string NextRequest(RawPeer& server) {
    absl::StatusOr<std::string> frame = server.Receive(FrameType::kRequest);
    EXPECT_EQ(frame.status(), absl::OkStatus());
    return frame.ok() ? *frame : std::string(sizeof(RequestHeader), '\0');
  }

  // Request and reply are the same bytes.
  static void Answer(RawPeer& server, const std::string& request) {
    const auto header = HeaderOf<RequestHeader>(request);
    ResponseHeader response = {};
    response.frame = server.Header(FrameType::kResponse, header.frame.call_id);
    response.message_bytes = header.message_bytes;
    response.attachment_bytes = header.attachment_bytes;
    EXPECT_EQ(
        server.Send(FrameText(response, request.substr(sizeof(RequestHeader)))),
        absl::OkStatus());
  }

  static void Refuse(RawPeer& server, const std::string& request) {
    const std::string text = "it goes";
    ResponseHeader response = {};
    response.frame = server.Header(
        FrameType::kResponse, HeaderOf<RequestHeader>(request).frame.call_id);
    response.frame.flags = transport::kFlagUnprocessed;
    response.code = static_cast<uint32_t>(absl::StatusCode::kUnavailable);
    response.status_message_bytes = static_cast<uint16_t>(text.size());
    EXPECT_EQ(server.Send(FrameText(response, text)), absl::OkStatus());
  }

  std::vector<std::unique_ptr<Call>> Start(int count) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(
          std::make_unique<Call>(stub_.get(), "call " + std::to_string(i)));
    }
    return calls;
  }

  const std::unique_ptr<RawListener> listener_;
  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<EndToEnd::Stub> stub_;
};

TEST_F(TransparentRetryTest, ACallThatWasRefusedUnprocessedIsMadeOnceMore) {
  Call call(stub_.get(), "hello");
  const auto server = Accepted();
  const std::string first = NextRequest(*server);
  Refuse(*server, first);
  const std::string second = NextRequest(*server);
  EXPECT_EQ(first.substr(sizeof(RequestHeader)),
            second.substr(sizeof(RequestHeader)));
  Answer(*server, second);
  call.ExpectEchoed();
}

TEST_F(TransparentRetryTest, ACallThatIsRefusedAgainEnds) {
  Call call(stub_.get(), "hello");
  const auto server = Accepted();
  Refuse(*server, NextRequest(*server));
  Refuse(*server, NextRequest(*server));
  EXPECT_EQ(call.Status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(call.Status().message()), HasSubstr("it goes"));
}

TEST_F(TransparentRetryTest, OnlyWhatWasPostedEndsWithTheConnection) {
  auto calls = Start(20);
  NextRequest(*Accepted(/*credits=*/1));  // Then the server is gone.
  EXPECT_EQ(calls[0]->Status().code(), absl::StatusCode::kUnavailable)
      << calls[0]->Status();
  const auto server = Accepted();
  for (size_t i = 1; i < calls.size(); ++i) {
    const std::string request = NextRequest(*server);
    EXPECT_THAT(request, HasSubstr("call " + std::to_string(i)));
    Answer(*server, request);
  }
  for (size_t i = 1; i < calls.size(); ++i) calls[i]->ExpectEchoed();
}

TEST_F(TransparentRetryTest, WhatWasNeverPostedIsMadeAsOftenAsItMustBe) {
  auto calls = Start(4);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(NextRequest(*Accepted(/*credits=*/1)),
                HasSubstr("call " + std::to_string(i)));
    EXPECT_EQ(calls[i]->Status().code(), absl::StatusCode::kUnavailable);
  }
  const auto server = Accepted();
  Answer(*server, NextRequest(*server));
  calls[3]->ExpectEchoed();
}

TEST_F(TransparentRetryTest, AnAttachmentInMemoryOfTheLostConnectionIsSent) {
  std::thread connects([this] {
    EXPECT_TRUE(channel_->WaitForConnected(absl::Now() + absl::Minutes(2)));
  });
  auto lost = Accepted(/*credits=*/1);
  connects.join();
  Call first(stub_.get(), "first");
  Buffer attachment = channel_->AllocateBuffer(1000);
  const std::string pattern = Pattern(1000, 1);
  std::copy(pattern.begin(), pattern.end(), attachment.data());
  Call second(stub_.get(), "second", std::move(attachment));
  EXPECT_THAT(NextRequest(*lost), HasSubstr("first"));
  lost.reset();
  const auto server = Accepted();
  const std::string request = NextRequest(*server);
  EXPECT_THAT(request, HasSubstr(pattern));
  Answer(*server, request);
  second.ExpectEchoed();
  EXPECT_EQ(first.Status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TransparentRetryTest, AGoAwaySendsToAnotherServerWhatWasNotPosted) {
  auto calls = Start(10);
  const auto leaving = Accepted(/*credits=*/1);
  const std::string posted = NextRequest(*leaving);
  EXPECT_EQ(leaving->Send(FrameText(leaving->Header(FrameType::kGoAway))),
            absl::OkStatus());
  const auto server = Accepted();
  for (size_t i = 1; i < calls.size(); ++i) {
    Answer(*server, NextRequest(*server));
  }
  for (size_t i = 1; i < calls.size(); ++i) calls[i]->ExpectEchoed();
  // The old server has got the client's GOAWAY, behind its last REQUEST.
  EXPECT_EQ(leaving->Receive(FrameType::kGoAway).status(), absl::OkStatus());
  Answer(*leaving, posted);
  calls[0]->ExpectEchoed();
}

TEST_F(TransparentRetryTest, WhatIsMadeAgainKeepsItsDeadline) {
  Call posted(stub_.get(), "posted");
  Call waits(stub_.get(), "waits", {}, absl::Milliseconds(500));
  NextRequest(*Accepted(/*credits=*/1));
  EXPECT_EQ(posted.Status().code(), absl::StatusCode::kUnavailable);
  // Nobody answers the next attempt to connect.
  EXPECT_EQ(waits.Status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(TransparentRetryTest, WhatIsMadeAgainCanBeCancelled) {
  auto calls = Start(2);
  NextRequest(*Accepted(/*credits=*/1));
  EXPECT_EQ(calls[0]->Status().code(), absl::StatusCode::kUnavailable);
  calls[1]->Cancel();
  EXPECT_EQ(calls[1]->Status().code(), absl::StatusCode::kCancelled);
}

TEST_F(TransparentRetryTest, AServerThatShutsDownIsOnlyAPauseBeforeTheNext) {
  Call call(stub_.get(), "hello");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ((*listener_->Next())
                  ->Reject(transport::EncodeReject(
                      {transport::RejectReason::kShuttingDown, ""})),
              absl::OkStatus());
  }
  const auto server = Accepted();
  Answer(*server, NextRequest(*server));
  call.ExpectEchoed();
}

// A rolling upgrade: it ends when a server of this client's
// version takes the other's place.
TEST_F(TransparentRetryTest, APatientCallWaitsForAServerOfItsVersion) {
  Call patient(stub_.get(), "hello", {}, absl::Minutes(2), /*patient=*/true);
  Call other(stub_.get(), "at once");
  EXPECT_EQ((*listener_->Next())
                ->Reject(transport::EncodeReject(
                    {transport::RejectReason::kBadVersion, "only version 9"})),
            absl::OkStatus());
  EXPECT_EQ(other.Status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(other.Status().message()),
              HasSubstr("only version 9"));
  const auto server = Accepted();
  Answer(*server, NextRequest(*server));
  patient.ExpectEchoed();
}

TEST_F(TransparentRetryTest, AServerThatIsFullEndsTheCallsThatWait) {
  Call call(stub_.get(), "hello");
  EXPECT_EQ((*listener_->Next())
                ->Reject(transport::EncodeReject(
                    {transport::RejectReason::kFull, "no room"})),
            absl::OkStatus());
  EXPECT_EQ(call.Status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(call.Status().message()), HasSubstr("no room"));
}

// The policy does not name the code.
TEST_F(TransparentRetryTest, AStreamThatWasRefusedIsMadeOnceMoreIfItIsKept) {
  ChannelOptions options;
  options.service_config = R"({"methodConfig": [{"name": [{}],
      "retryPolicy": {"maxAttempts": 2, "initialBackoff": "1s",
        "maxBackoff": "1s", "backoffMultiplier": 1,
        "retryableStatusCodes": ["ABORTED"]}}]})";
  for (const bool is_kept : {true, false}) {
    if (!is_kept) options.service_config.clear();
    const auto stub =
        StreamService::NewStub(CreateChannel(listener_->address(), options));
    ClientContext context;
    ListRequest request;
    request.set_count(12345);
    const auto stream = stub->List(&context, request);
    absl::Status status;
    std::thread finisher([&] { status = stream->Finish(); });
    const auto server = Accepted();
    std::string data[2];
    for (int i = 0; i < (is_kept ? 2 : 1); ++i) {
      const std::string begin = NextRequest(*server);
      const auto frame = server->Receive(FrameType::kData);
      ASSERT_EQ(frame.status(), absl::OkStatus());
      data[i] = frame->substr(sizeof(transport::FrameHeader));
      Refuse(*server, begin);
    }
    finisher.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("it goes"));
    EXPECT_EQ(data[1], is_kept ? data[0] : "");
    EXPECT_NE(data[0], "");
  }
}

// --- Real servers ------------------------------------------------------------

TEST_F(TransparentRetryTest, ACallThatRanIsNotMadeAgain) {
  StartServer();
  const auto stub = EndToEnd::NewStub(NewChannel());
  absl::Status status;
  std::thread caller([&] {
    ClientContext patient;
    patient.set_wait_for_ready(true);
    status = CallBlock(stub.get(), &patient, "ran");
  });
  service().AwaitBlocked("ran");
  StopServer();
  StartServer({}, port());
  service().Release("ran");  // A second attempt would succeed.
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  ClientContext context;
  context.set_wait_for_ready(true);
  Description description;
  EXPECT_EQ(stub->Describe(&context, Nothing(), &description),
            absl::OkStatus());
  EXPECT_EQ(service().blocks("ran"), 1);
}

TEST_F(TransparentRetryTest, AServerMayStartWhileTheOldOneStillServes) {
  StartServer();
  const auto channel = NewChannel();
  const auto stub = EndToEnd::NewStub(channel);
  auto blocked = Block(stub.get(), "old");
  service().AwaitBlocked("old");
  std::thread shutdown([this] { server().Shutdown(); });
  // The port is free as soon as the old server has begun its shutdown.
  absl::StatusOr<std::unique_ptr<Server>> next;
  do {
    next = ServerBuilder()
               .AddListeningPort(Address(port()))
               .RegisterService(&service())
               .BuildAndStart();
  } while (absl::IsAlreadyExists(next.status()));
  ASSERT_EQ(next.status(), absl::OkStatus());
  EXPECT_EQ(EchoProblem(*stub, 1000, 1), "");
  service().Release("old");
  blocked->thread.join();
  EXPECT_EQ(blocked->status, absl::OkStatus());
  shutdown.join();
  EXPECT_EQ(EchoProblem(*stub, 1000, 2), "");
}

// Makes patient calls on a channel of its own until it is stopped.
class Caller {
 public:
  // Each call sends `bytes` bytes, and as many in an attachment if `attaches`.
  // After each call the thread waits for `pause` without polling.
  struct Load {
    size_t bytes = 10;
    bool attaches = false;
    absl::Duration pause = absl::ZeroDuration();
  };

  Caller(const std::string& target, const Load& load)
      : channel_(CreateChannel(target)),
        stub_(EndToEnd::NewStub(channel_)),
        load_(load),
        thread_([this] {
          while (!stop_) CallOnce();
        }) {}

  // Waits until so many more calls have ended.
  void AwaitServed(int count) {
    const base::MutexLock lock(mutex_);
    const int enough = served_ + count;
    while (served_ < enough) served_changed_.Wait(mutex_);
  }
  std::string Stop() {
    stop_ = true;
    thread_.join();
    return problem_;
  }

 private:
  void CallOnce() {
    ClientContext context;
    context.set_wait_for_ready(true);
    context.set_timeout(absl::Minutes(2));
    EchoRequest request;
    EchoReply reply;
    request.set_payload(Pattern(load_.bytes, 1));
    if (load_.attaches) {
      context.set_request_attachment(channel_->AllocateBuffer(load_.bytes));
    }
    const absl::Status status = stub_->Echo(&context, request, &reply);
    if (!status.ok()) {
      problem_ = status.ToString();
    } else if (reply.payload() != request.payload()) {
      problem_ = "other bytes";
    }
    const base::MutexLock lock(mutex_);
    ++served_;
    served_changed_.NotifyAll();
    if (load_.pause > absl::ZeroDuration()) {
      never_.WaitUntil(mutex_, base::Now() + load_.pause);
    }
  }

  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<EndToEnd::Stub> stub_;
  const Load load_;
  std::atomic<bool> stop_{false};
  base::Mutex mutex_;
  base::CondVar served_changed_;
  base::CondVar never_;
  int served_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string problem_;
  std::thread thread_;
};

TEST_F(TransparentRetryTest, ServersAreReplacedUnderLoadWithoutAFailedCall) {
  constexpr int kRestarts = 4;
  StartServer();
  std::vector<std::unique_ptr<Caller>> callers;
  for (const Caller::Load& load :
       {Caller::Load{}, Caller::Load{.bytes = 10000},
        Caller::Load{.bytes = 100000, .attaches = true},
        Caller::Load{.pause = absl::Milliseconds(1)},
        Caller::Load{.pause = absl::Milliseconds(2)},
        Caller::Load{.pause = absl::Milliseconds(5)}}) {
    callers.push_back(std::make_unique<Caller>(target(), load));
  }
  for (int i = 0; i < kRestarts; ++i) {
    for (const auto& caller : callers) caller->AwaitServed(3);
    server().Shutdown();
    StartServer({}, port());
  }
  for (const auto& caller : callers) EXPECT_EQ(caller->Stop(), "");
}

// More calls than a connection has slots for, so that some stand in line.
TEST_F(TransparentRetryTest, AFloodOfCallsOutlivesItsServer) {
  StartServer();
  for (int i = 0; i < 4; ++i) {
    const auto stub = EndToEnd::NewStub(NewChannel());
    ASSERT_EQ(EchoProblem(*stub, 10, 1), "");
    std::vector<std::unique_ptr<Call>> calls;
    for (int call = 0; call < 500; ++call) {
      calls.push_back(std::make_unique<Call>(stub.get(), "call", Buffer(),
                                             absl::Minutes(2),
                                             /*patient=*/true));
    }
    server().Shutdown();
    StartServer({}, port());
    for (const auto& call : calls) call->ExpectEchoed();
  }
}

}  // namespace
}  // namespace verbena::end_to_end
