#include "rpc/internal/stream/reactions.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/message_lite.h"
#include "gtest/gtest.h"
#include "rpc/buffer.h"
#include "rpc/client_reactor.h"
#include "rpc/support/stream_reactor.h"
#include "rpc/support/stub_support.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;

class OneReactor final : public ClientReactor {
 public:
  void OnDone(const absl::Status& /*status*/) override {}
  void WantToRead() { Read(nullptr, nullptr); }
};

// Runs what is asked for at once, and writes it down.
class OneCall final : public ReactorCall {
 public:
  explicit OneCall(OneReactor* reactor) : reactor_(*reactor) {
    Reactions::Bind(reactor, this);
    PostReactions();
  }
  void PostReactions() override {
    Reactions::Run(&reactor_, [this](uint32_t flags) {
      const uint32_t wanted = flags & (Reactions::kRead | Reactions::kClosed);
      if (wanted == 0) return Reactions::Look::kNothing;
      served.push_back(wanted);
      Reactions::Clear(&reactor_, wanted);
      if ((wanted & Reactions::kClosed) == 0) return Reactions::Look::kDone;
      Reactions::Unbind(&reactor_);
      return Reactions::Look::kOver;
    });
  }
  OperationNow ReadNow(google::protobuf::MessageLite*, Buffer*) override {
    return OperationNow::kEnded;
  }
  OperationNow WriteNow(const google::protobuf::MessageLite&,
                        Attachment) override {
    return OperationNow::kEnded;
  }

  std::vector<uint32_t> served;

 private:
  OneReactor& reactor_;
};

TEST(ReactionsTest, WhatWasWantedBeforeTheCallIsServedByIt) {
  OneReactor reactor;
  reactor.WantToRead();
  const OneCall call(&reactor);
  EXPECT_THAT(call.served, ElementsAre(Reactions::kRead));
}

TEST(ReactionsTest, AReactorThatIsOverIsAsGoodAsNew) {
  OneReactor reactor;
  for (int i = 0; i < 3; ++i) {
    const OneCall call(&reactor);
    reactor.WantToRead();
    Reactions::Tell(&reactor, Reactions::kClosed);
    EXPECT_THAT(call.served, ElementsAre(Reactions::kRead, Reactions::kClosed));
    reactor.AddMultipleHolds(2);
    reactor.RemoveHold();
    reactor.RemoveHold();
  }
}

TEST(ReactionsTest, WhatWasWantedOfACallThatCannotBeginIsNotOfTheNext) {
  OneReactor reactor;
  reactor.AddHold();
  reactor.WantToRead();
  Reactions::Forget(&reactor);
  const OneCall call(&reactor);
  EXPECT_THAT(call.served, ElementsAre());
  reactor.RemoveHold();
}

TEST(ReactionsDeathTest, MoreHoldsAreRemovedThanWereAdded) {
  OneReactor reactor;
  reactor.AddHold();
  reactor.RemoveHold();
  EXPECT_DEATH(reactor.RemoveHold(), "more often than AddHold");
}

TEST(ReactionsDeathTest, AReactorHasTwoCallsAtOnce) {
  OneReactor reactor;
  const OneCall call(&reactor);
  EXPECT_DEATH(OneCall{&reactor}, "use one reactor for each call");
}

TEST(ReactionsDeathTest, ACallIsStartedTwice) {
  OneReactor reactor;
  EXPECT_DEATH(reactor.StartCall(), "has no call to start");
  StubAccess::SetStart(&reactor, [] {});
  reactor.StartCall();
  EXPECT_DEATH(reactor.StartCall(), "has no call to start");
}

}  // namespace
}  // namespace verbena::internal
