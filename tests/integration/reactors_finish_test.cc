// Tests of the end of reactors: which reactions come after the operation that
// ends a call or its writes, and which status counts.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"

namespace verbena::end_to_end {
namespace {

using testing::ElementsAre;

// Lets the test write down what happened on the server, and wait for the end.
struct Ledger {
  std::vector<std::string> reactions;
  Countdown done{1};
};

// The operations by which a handler ends its call with NOT_FOUND.
enum class End { kWriteAndFinish, kFinish, kWriteThenFinish };

// Answers the first message and ends. Each further reaction does what is usual
// in handlers that were written for gRPC: it finishes with OK.
class Ending final : public ServerBidiReactor<Item, Item> {
 public:
  Ending(End end, Ledger* ledger) : end_(end), ledger_(*ledger) {
    StartRead(&item_);
  }
  void OnReadDone(bool ok) override {
    Note("read ", ok);
    if (std::exchange(ended_, true)) return Finish(absl::OkStatus());
    const absl::Status status = absl::NotFoundError("no such key");
    if (end_ == End::kWriteAndFinish) {
      StartWriteAndFinish(&item_, status);
    } else {
      // The read is open when the call ends.
      StartRead(&next_);
      if (end_ == End::kWriteThenFinish) StartWrite(&item_);
      Finish(status);
      Finish(absl::OkStatus());
    }
  }
  void OnWriteDone(bool ok) override {
    Note("write ", ok);
    Finish(absl::OkStatus());
  }
  void OnDone() override {
    Ledger& ledger = ledger_;
    delete this;
    ledger.done.Done();
  }

 private:
  void Note(const char* what, bool ok) {
    ledger_.reactions.push_back(absl::StrCat(what, ok));
  }

  const End end_;
  Ledger& ledger_;
  Item item_;
  Item next_;
  bool ended_ = false;
};

class EndingService final : public StreamService::CallbackService {
 public:
  EndingService(End end, Ledger* ledger) : end_(end), ledger_(ledger) {}
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext*) override {
    return new Ending(end_, ledger_);
  }

 private:
  const End end_;
  Ledger* const ledger_;
};

class ReactorsFinishTest : public FormsTest {
 protected:
  // The status of a Chat with a handler that ends so; what its reactions were.
  absl::Status EndedBy(End end, std::vector<std::string>* reactions) {
    Ledger ledger;
    Serve<EndingService>(end, &ledger);
    const auto stub = StreamService::NewStub(channel_);
    ClientContext context;
    const auto stream = stub->Chat(&context);
    EXPECT_TRUE(stream->Write(NewItem(1, 10)));
    Item item;
    EXPECT_EQ(stream->Read(&item), end != End::kFinish);
    const absl::Status status = stream->Finish();
    ledger.done.Wait();
    *reactions = std::move(ledger.reactions);
    return status;
  }

  std::vector<std::string> reactions_;
};

TEST_F(ReactorsFinishTest, NoReactionFollowsAWriteThatFinishes) {
  const absl::Status status = EndedBy(End::kWriteAndFinish, &reactions_);
  EXPECT_EQ(status, absl::NotFoundError("no such key"));
  EXPECT_THAT(reactions_, ElementsAre("read 1"));
}

TEST_F(ReactorsFinishTest, ASecondFinishReplacesNoStatus) {
  const absl::Status status = EndedBy(End::kFinish, &reactions_);
  EXPECT_EQ(status, absl::NotFoundError("no such key"));
  EXPECT_THAT(reactions_, ElementsAre("read 1", "read 0"));
}

TEST_F(ReactorsFinishTest, NorDoesOneThatFollowsAWrite) {
  const absl::Status status = EndedBy(End::kWriteThenFinish, &reactions_);
  EXPECT_EQ(status, absl::NotFoundError("no such key"));
  EXPECT_THAT(reactions_, ElementsAre("read 1", "write 1", "read 0"));
}

// Serves all calls, one at a time, with the same reactor.
class RepeatingService final : public StreamService::CallbackService {
 public:
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext*) override {
    reactor_.Begin();
    return &reactor_;
  }

 private:
  class Reactor final : public ServerBidiReactor<Item, Item> {
   public:
    void Begin() {
      const absl::Status status(static_cast<absl::StatusCode>(++calls_),
                                "each has its own");
      if (calls_ % 2 == 0) {
        StartWriteAndFinish(&item_, status);
      } else {
        StartWrite(&item_);
      }
    }
    void OnWriteDone(bool /*ok*/) override {
      EXPECT_EQ(calls_ % 2, 1);
      Finish(absl::Status(static_cast<absl::StatusCode>(calls_), "own"));
      Finish(absl::OkStatus());
    }
    void OnDone() override {}

   private:
    int calls_ = 0;
    Item item_;
  };
  Reactor reactor_;
};

TEST_F(ReactorsFinishTest, AReactorFinishesEachOfItsCallsAnew) {
  Serve<RepeatingService>();
  const auto stub = StreamService::NewStub(channel_);
  for (int call = 1; call <= 10; ++call) {
    ClientContext context;
    const auto stream = stub->Chat(&context);
    Item item;
    EXPECT_TRUE(stream->Read(&item));
    EXPECT_EQ(static_cast<int>(stream->Finish().code()), call);
  }
}

class TwiceService final : public Inline::CallbackService {
 public:
  ServerUnaryReactor* Echo(CallbackServerContext* context, const EchoRequest*,
                           EchoReply*) override {
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(absl::NotFoundError("no such key"));
    reactor->Finish(absl::OkStatus());
    return reactor;
  }
};

TEST_F(ReactorsFinishTest, AUnaryCallKeepsItsFirstStatusToo) {
  Serve<TwiceService>();
  const auto stub = Inline::NewStub(channel_);
  ClientContext context;
  EchoReply reply;
  EXPECT_EQ(stub->Echo(&context, EchoRequest(), &reply),
            absl::NotFoundError("no such key"));
}

// Writes some messages, of which it says that the last one is, and keeps what
// its reactions were.
class LastWriter final : public ClientBidiReactor<Item, Item> {
 public:
  std::vector<std::string> Run(StreamService::Stub* stub, int items) {
    left_ = items;
    stub->async()->Chat(&context_, this);
    StartRead(&answer_);
    Next();
    StartCall();
    done_.Wait();
    return reactions_;
  }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&answer_);
  }
  void OnWriteDone(bool ok) override {
    reactions_.push_back(absl::StrCat("write ", ok));
    if (left_ > 0) Next();
  }
  void OnWritesDoneDone(bool ok) override {
    reactions_.push_back(absl::StrCat("writes done ", ok));
  }
  void OnDone(const absl::Status& status) override {
    reactions_.push_back(absl::StatusCodeToString(status.code()));
    done_.Done();
  }

 private:
  void Next() {
    if (--left_ == 0) return StartWriteLast(&item_);
    StartWrite(&item_);
  }

  ClientContext context_;
  const Item item_ = NewItem(1, 10);
  Item answer_;
  int left_ = 0;
  std::vector<std::string> reactions_;
  Countdown done_{1};
};

TEST_F(ReactorsFinishTest, AClientsLastWriteHasOneReaction) {
  Serve(Form::kReactor);
  const auto stub = StreamService::NewStub(channel_);
  LastWriter one;
  EXPECT_THAT(one.Run(stub.get(), 1), ElementsAre("write 1", "OK"));
  LastWriter two;
  EXPECT_THAT(two.Run(stub.get(), 2), ElementsAre("write 1", "write 1", "OK"));
}

}  // namespace
}  // namespace verbena::end_to_end
