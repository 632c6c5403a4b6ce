// Tests of reactors that are told of initial metadata, and of reactors that
// have more than one call.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
using testing::Pair;

// Writes down its reactions. Starts to read, one message after the other, in
// the first of them, unless it is told to begin with a read.
class Listener final : public ClientBidiReactor<Item, Item> {
 public:
  // Waits for the end. What the reactions were, in order.
  std::vector<std::string> Await() {
    done_.Wait();
    return std::exchange(reactions_, {});
  }
  // Makes the call begin.
  void Call(StreamService::Stub* stub, ClientContext* context) {
    context_ = context;
    stub->async()->Chat(context, this);
    StartCall();
  }
  void ReadFirst() { StartRead(&item_); }
  // Sends this when it hears of metadata.
  void AnswerMetadata() { answers_ = true; }

  void OnReadInitialMetadataDone(bool ok) override {
    std::string metadata;
    for (const auto& [key, value] : context_->GetServerInitialMetadata()) {
      absl::StrAppend(&metadata, " ", key, "=", value);
    }
    reactions_.push_back(absl::StrCat("initial ", ok, metadata));
    if (answers_) StartWriteLast(&item_);
    if (!reads_) StartRead(&item_);
    reads_ = true;
  }
  void OnReadDone(bool ok) override {
    reactions_.push_back(absl::StrCat("read ", ok));
    reads_ = true;
    if (ok) StartRead(&item_);
  }
  void OnWriteDone(bool ok) override { EXPECT_TRUE(ok); }
  void OnDone(const absl::Status& status) override {
    reactions_.push_back(absl::StatusCodeToString(status.code()));
    done_.Done();
  }
  void set_reads() { reads_ = true; }

 private:
  ClientContext* context_ = nullptr;
  Item item_;
  bool reads_ = false;
  bool answers_ = false;
  std::vector<std::string> reactions_;
  Countdown done_{1};
};

// A handler of a Chat that does what a test says, and mostly ends when its
// client has sent all.
class Speaker final : public ServerBidiReactor<Item, Item> {
 public:
  using Act = std::function<void(Speaker*)>;
  explicit Speaker(CallbackServerContext* context) : context_(*context) {}

  CallbackServerContext& context() { return context_; }
  void Read() { StartRead(&item_); }
  void Write() { StartWrite(&item_); }
  void WriteLast() { StartWriteLast(&item_); }
  void set_on_written(Act act) { on_written_ = std::move(act); }
  void set_on_sent(std::function<void(bool)> act) { on_sent_ = std::move(act); }

  void OnSendInitialMetadataDone(bool ok) override {
    if (on_sent_ != nullptr) on_sent_(ok);
  }
  void OnReadDone(bool ok) override {
    if (ok) return Read();
    Finish(absl::OkStatus());
  }
  void OnWriteDone(bool ok) override {
    EXPECT_TRUE(ok);
    if (on_written_ != nullptr) on_written_(this);
  }
  void OnDone() override { delete this; }

 private:
  CallbackServerContext& context_;
  Item item_;
  Act on_written_;
  std::function<void(bool)> on_sent_;
};

class SpeakingService final : public StreamService::CallbackService {
 public:
  explicit SpeakingService(Speaker::Act act) : act_(std::move(act)) {}
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext* context) override {
    auto* const speaker = new Speaker(context);
    act_(speaker);
    return speaker;
  }

 private:
  const Speaker::Act act_;
};

class ReactorsMetadataTest : public FormsTest {
 protected:
  void ServeSpeaker(Speaker::Act act) {
    Serve<SpeakingService>(std::move(act));
    Connect();
  }
  void Connect() { stub_ = StreamService::NewStub(channel_); }
  std::vector<std::string> Call(Listener* listener) {
    ClientContext context;
    listener->Call(stub_.get(), &context);
    return listener->Await();
  }

  std::unique_ptr<StreamService::Stub> stub_;
};

// The client says nothing, and the handler writes nothing, before they are
// there.
TEST_F(ReactorsMetadataTest, TheyComeBeforeAnyMessage) {
  std::atomic<int> sent{0};
  ServeSpeaker([&](Speaker* speaker) {
    speaker->context().AddInitialMetadata("session", "7");
    speaker->set_on_sent([&sent, speaker](bool ok) {
      if (ok) ++sent;
      speaker->Read();
    });
    speaker->StartSendInitialMetadata();
  });
  Listener listener;
  listener.AnswerMetadata();
  EXPECT_THAT(Call(&listener),
              ElementsAre("initial 1 session=7", "read 0", "OK"));
  EXPECT_EQ(sent, 1);
}

TEST_F(ReactorsMetadataTest, ThatThereAreNoneCanBeSentToo) {
  ServeSpeaker([](Speaker* speaker) {
    speaker->Read();
    speaker->StartSendInitialMetadata();
  });
  Listener listener;
  listener.AnswerMetadata();
  EXPECT_THAT(Call(&listener), ElementsAre("initial 1", "read 0", "OK"));
}

// The client begins to read only after this reaction.
TEST_F(ReactorsMetadataTest, AMessageSaysThatThereAreNone) {
  ServeSpeaker([](Speaker* speaker) {
    speaker->Read();
    speaker->Write();
  });
  Listener listener;
  listener.AnswerMetadata();
  EXPECT_THAT(Call(&listener),
              ElementsAre("initial 1", "read 1", "read 0", "OK"));
}

TEST_F(ReactorsMetadataTest, TheyAreToldOfBeforeTheFirstReadOfEveryServer) {
  for (const Form form : kForms) {
    Serve(form);
    Connect();
    Listener listener;
    listener.set_reads();
    listener.ReadFirst();
    const Item item = NewItem(1, 10);
    listener.StartWriteLast(&item);
    const std::vector<std::string> reactions = Call(&listener);
    EXPECT_THAT(reactions, ElementsAre(testing::StartsWith("initial 1 form="),
                                       "read 1", "read 0", "OK"));
  }
}

// And a read that is started then has its reaction.
TEST_F(ReactorsMetadataTest, TheEndSaysThatThereAreNone) {
  ServeSpeaker(
      [](Speaker* speaker) { speaker->Finish(absl::NotFoundError("no")); });
  Listener listener;
  EXPECT_THAT(Call(&listener), ElementsAre("initial 0", "read 0", "NOT_FOUND"));
  server_.reset();
  Listener second;
  EXPECT_THAT(Call(&second), ElementsAre("initial 0", "read 0", "UNAVAILABLE"));
}

TEST_F(ReactorsMetadataTest, ACallThatCouldNotBeMadeHasNone) {
  Serve(Form::kReactor);
  Connect();
  ClientContext context;
  Listener first;
  first.AddHold();
  first.Call(stub_.get(), &context);
  Listener second;
  second.Call(stub_.get(), &context);
  EXPECT_THAT(second.Await(),
              ElementsAre("initial 0", "read 0", "FAILED_PRECONDITION"));
  context.TryCancel();
  first.RemoveHold();
  EXPECT_THAT(first.Await(), ElementsAre("initial 0", "read 0", "CANCELLED"));
}

// --- At the server ---

TEST_F(ReactorsMetadataTest, MoreThanTheClientTakesAreNotSent) {
  std::atomic<int> refused{0};
  ServeSpeaker([&](Speaker* speaker) {
    speaker->context().AddInitialMetadata("long", std::string(100 << 10, 'x'));
    speaker->set_on_sent([&refused, speaker](bool ok) {
      if (!ok) ++refused;
      speaker->Finish(absl::OkStatus());
    });
    speaker->StartSendInitialMetadata();
  });
  Listener listener;
  EXPECT_THAT(Call(&listener),
              ElementsAre("initial 0", "read 0", "RESOURCE_EXHAUSTED"));
  EXPECT_EQ(refused, 1);
}

TEST_F(ReactorsMetadataTest, ACancelledCallSendsNone) {
  std::atomic<int> refused{0};
  Countdown begun(1);
  Speaker* waiting = nullptr;
  ServeSpeaker([&](Speaker* speaker) {
    waiting = speaker;
    speaker->set_on_sent([&refused](bool ok) {
      if (!ok) ++refused;
    });
    begun.Done();
  });
  ClientContext context;
  Listener listener;
  listener.Call(stub_.get(), &context);
  begun.Wait();
  context.TryCancel();
  EXPECT_THAT(listener.Await(),
              ElementsAre("initial 0", "read 0", "CANCELLED"));
  // By its read's end the handler knows.
  while (!waiting->context().IsCancelled()) {
  }
  waiting->StartSendInitialMetadata();
  waiting->Finish(absl::OkStatus());
  server_.reset();
  EXPECT_EQ(refused, 1);
}

class UnaryService final : public Inline::CallbackService {
 public:
  ServerUnaryReactor* Echo(CallbackServerContext* context,
                           const EchoRequest* /*request*/,
                           EchoReply* response) override {
    class Reactor final : public ServerUnaryReactor {
     public:
      explicit Reactor(EchoReply* response) : response_(*response) {
        StartSendInitialMetadata();
      }
      void OnSendInitialMetadataDone(bool ok) override {
        response_.set_payload(ok ? "sent" : "not sent");
        Finish(absl::OkStatus());
      }
      void OnDone() override { delete this; }

     private:
      EchoReply& response_;
    };
    context->AddInitialMetadata("session", "7");
    return new Reactor(response);
  }
};

TEST_F(ReactorsMetadataTest, AUnaryReactorSendsThemToo) {
  Serve<UnaryService>();
  const auto stub = Inline::NewStub(channel_);
  for (int i = 0; i < 3; ++i) {
    ClientContext context;
    EchoReply reply;
    ASSERT_EQ(stub->Echo(&context, EchoRequest(), &reply), absl::OkStatus());
    EXPECT_EQ(reply.payload(), "sent");
    EXPECT_THAT(context.GetServerInitialMetadata(),
                ElementsAre(Pair("session", "7")));
  }
}

TEST_F(ReactorsMetadataTest, TheLastMessageGoesBeforeTheEnd) {
  for (const bool at_once : {false, true}) {
    ServeSpeaker([at_once](Speaker* speaker) {
      speaker->WriteLast();
      const auto finish = [](Speaker* written) {
        written->Finish(absl::AlreadyExistsError("after it"));
      };
      if (at_once) return finish(speaker);
      speaker->set_on_written(finish);
    });
    Listener listener;
    EXPECT_THAT(Call(&listener),
                ElementsAre("initial 1", "read 1", "read 0", "ALREADY_EXISTS"));
  }
}

// The client may be reading, by then, what came before that message.
TEST_F(ReactorsMetadataTest, WhatIsAddedBehindAMessageIsNotSent) {
  for (const bool sends : {false, true}) {
    ServeSpeaker([sends](Speaker* speaker) {
      const auto finish = [](Speaker* self) { self->Finish(absl::OkStatus()); };
      speaker->set_on_sent([speaker, finish](bool ok) {
        EXPECT_TRUE(ok);
        finish(speaker);
      });
      speaker->set_on_written([sends, finish](Speaker* written) {
        written->context().AddInitialMetadata("late", "1");
        if (!sends) return finish(written);
        written->StartSendInitialMetadata();
      });
      speaker->Write();
    });
    Listener listener;
    ClientContext context;
    listener.Call(stub_.get(), &context);
    EXPECT_THAT(listener.Await(),
                ElementsAre("initial 1", "read 1", "read 0", "OK"));
    EXPECT_THAT(context.GetServerInitialMetadata(), testing::IsEmpty());
  }
}

// --- One reactor, several calls ---

// Calls again from inside OnDone().
class Repeater final : public ClientBidiReactor<Item, Item> {
 public:
  Repeater(StreamService::Stub* stub, int calls) : stub_(*stub), left_(calls) {}
  void Begin() {
    context_.emplace();
    StartRead(&answer_);
    StartWriteLast(&question_);
    stub_.async()->Chat(&*context_, this);
    StartCall();
  }
  void OnReadInitialMetadataDone(bool ok) override { metadata += ok ? 1 : 0; }
  void OnReadDone(bool ok) override {
    answers += ok ? 1 : 0;
    if (ok) StartRead(&answer_);
  }
  void OnDone(const absl::Status& status) override {
    EXPECT_EQ(status, absl::OkStatus());
    if (--left_ > 0) return Begin();
    done.Done();
  }

  int metadata = 0;
  int answers = 0;
  Countdown done{1};

 private:
  StreamService::Stub& stub_;
  int left_;
  std::optional<ClientContext> context_;
  Item question_ = NewItem(1, 10);
  Item answer_;
};

TEST_F(ReactorsMetadataTest, AReactorMayHaveOneCallAfterTheOther) {
  Serve(Form::kReactor);
  Connect();
  Repeater repeater(stub_.get(), 10);
  repeater.Begin();
  repeater.done.Wait();
  EXPECT_EQ(repeater.metadata, 10);
  EXPECT_EQ(repeater.answers, 10);
}

// Serves all calls, one at a time, with the same reactor.
class FrugalService final : public StreamService::CallbackService {
 public:
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext*) override {
    reactor_.Begin();
    return &reactor_;
  }

 private:
  class Reactor final : public ServerBidiReactor<Item, Item> {
   public:
    void Begin() { StartRead(&item_); }
    void OnReadDone(bool ok) override {
      if (ok) return StartWrite(&item_);
      Finish(absl::OkStatus());
    }
    void OnWriteDone(bool /*ok*/) override { Begin(); }
    void OnDone() override {}

   private:
    Item item_;
  };
  Reactor reactor_;
};

TEST_F(ReactorsMetadataTest, SoMayOneOfAServer) {
  Serve<FrugalService>();
  Connect();
  for (int i = 0; i < 10; ++i) {
    ClientContext context;
    const auto stream = stub_->Chat(&context);
    ASSERT_TRUE(Echoes(*stream, NewItem(1, 10)));
    stream->WritesDone();
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace verbena::end_to_end
