// Tests of reactors and coroutines, and of handlers that are told of the
// cancellation of their call.

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/credentials.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/testing/child_process.h"

namespace verbena::end_to_end {
namespace {

// Events in the handlers of one server.
struct Ledger {
  std::atomic<int> cancels{0};
  Countdown begun{1};
  Countdown done{1};
};

// Reads until the client is gone or has sent all.
class Listening final : public ServerBidiReactor<Item, Item> {
 public:
  explicit Listening(Ledger* ledger) : ledger_(*ledger) {
    StartRead(&item_);
    ledger_.begun.Done();
  }
  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&item_);
    Finish(absl::OkStatus());
  }
  void OnCancel() override { ++ledger_.cancels; }
  void OnDone() override {
    Ledger& ledger = ledger_;
    delete this;
    ledger.done.Done();
  }

 private:
  Ledger& ledger_;
  Item item_;
};

class ListeningService final : public StreamService::CallbackService {
 public:
  explicit ListeningService(Ledger* ledger) : ledger_(ledger) {}
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext*) override {
    return new Listening(ledger_);
  }

 private:
  Ledger* const ledger_;
};

class EchoingService final : public EndToEnd::CallbackService {
 public:
  ServerUnaryReactor* Echo(CallbackServerContext* context,
                           const EchoRequest* request,
                           EchoReply* reply) override {
    reply->set_payload(request->payload().substr(0, 10));
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(absl::OkStatus());
    return reactor;
  }
};

class ReactorsTest : public FormsTest {
 protected:
  std::unique_ptr<StreamService::Stub> NewStub() {
    return StreamService::NewStub(channel_);
  }
};

TEST_F(ReactorsTest, WorkersParseLargeRequestsAndNoOthers) {
  Serve<EchoingService>();
  const auto stub = EndToEnd::NewStub(channel_);
  for (const size_t bytes : {100, 10000, 1000000}) {
    EXPECT_EQ(server_->GetMetrics().workers, 0u) << bytes;
    ClientContext context;
    EchoRequest request;
    request.set_payload(std::string(bytes, 'r'));
    EchoReply reply;
    EXPECT_EQ(stub->Echo(&context, request, &reply), absl::OkStatus());
    EXPECT_EQ(reply.payload(), std::string(10, 'r'));
  }
  EXPECT_EQ(server_->GetMetrics().workers, 1u);
}

TEST_F(ReactorsTest, AHandlerIsToldThatTheClientCancelled) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ledger.begun.Wait();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AHandlerIsToldThatTheDeadlineHasPassed) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  context.set_timeout(absl::Milliseconds(300));
  const auto stream = stub->Chat(&context);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AHandlerIsToldThatTheChannelIsGone) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  {
    ClientContext context;
    const auto stub = NewStub();
    channel_.reset();
    const auto stream = stub->Chat(&context);
    ledger.begun.Wait();
  }
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AServerThatShutsDownTellsItsHandlers) {
  Ledger ledger;
  Serve<ListeningService>(&ledger);
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  ledger.begun.Wait();
  server_->Shutdown(absl::Now());
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kUnavailable);
  ledger.done.Wait();
  EXPECT_EQ(ledger.cancels, 1);
}

TEST_F(ReactorsTest, AMethodThatIsNotOverriddenIsUnimplementedInEveryForm) {
  for (const bool coroutines : {false, true}) {
    if (coroutines) {
      Serve<StreamService::CoroutineService>();
    } else {
      Serve<StreamService::CallbackService>();
    }
    const std::unique_ptr<FormClient> client =
        FormClient::New(Form::kReactor, channel_);
    for (int kind = 0; kind < 3; ++kind) {
      ClientContext context;
      const absl::Status status =
          kind == 0   ? client->List(&context, ListRequest()).status
          : kind == 1 ? client->Record(&context, {Item()}, "").status
                      : client->Chat(&context, {Item()}, "").status;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    }
  }
}

// Says in OnDone() what its context still tells, and ends its call twice.
class Asking final : public ServerReadReactor<Item> {
 public:
  Asking(CallbackServerContext* context, Summary* response, std::string* told,
         Countdown* done)
      : context_(*context), response_(*response), told_(*told), done_(*done) {
    StartRead(&item_);
    Finish(absl::AbortedError("the first status counts"));
  }
  void OnReadDone(bool ok) override {
    if (!ok) Finish(absl::OkStatus());
  }
  void OnDone() override {
    told_ = context_.peer() + " " + context_.device() + " " +
            (context_.IsCancelled() ? "cancelled" : "not cancelled") + " " +
            std::to_string(context_.AllocateBuffer(7).size()) +
            (context_.auth_context() != nullptr ? "k" : "") +
            std::to_string(response_.count());
    Countdown& done = done_;
    delete this;
    done.Done();
  }

 private:
  CallbackServerContext& context_;
  Summary& response_;
  std::string& told_;
  Countdown& done_;
  Item item_;
};

class AskingService final : public StreamService::CallbackService {
 public:
  ServerReadReactor<Item>* Record(CallbackServerContext* context,
                                  Summary* response) override {
    return new Asking(context, response, &told, &done);
  }

  std::string told;
  Countdown done{1};
};

TEST_F(ReactorsTest, TheContextIsThereUntilTheEndAndTheFirstStatusCounts) {
  auto& service = Serve<AskingService>();
  ClientContext context;
  EXPECT_EQ(FormClient::New(Form::kBlocking, channel_)
                ->Record(&context, {}, "")
                .status,
            absl::AbortedError("the first status counts"));
  service.done.Wait();
  EXPECT_THAT(service.told, testing::EndsWith(" not cancelled 7k0"));
  EXPECT_THAT(service.told, testing::Not(testing::StartsWith(" ")));
}

// In each form, initial metadata of a handler go before its first message.
TEST_F(ReactorsTest, InitialMetadataGoBeforeTheFirstMessage) {
  for (const Form form : kForms) {
    Serve(form);
    const auto stub = NewStub();
    ClientContext context;
    const auto stream = stub->Chat(&context);
    ASSERT_TRUE(Echoes(*stream, NewItem(100, 10)));
    EXPECT_EQ(context.GetServerInitialMetadata().count("form"), 1u);
    stream->WritesDone();
    EXPECT_EQ(stream->Finish(), absl::OkStatus());
  }
}

// Writes from a thread of its own.
class Writer final : public ClientWriteReactor<Item> {
 public:
  void Write(int items) {
    for (int i = 0; i < items; ++i) {
      item_.set_number(static_cast<uint64_t>(i));
      Countdown written(1);
      written_ = &written;
      StartWrite(&item_);
      written.Wait();
    }
    StartWritesDone();
    RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    EXPECT_TRUE(ok);
    written_->Done();
  }
  void OnDone(const absl::Status& status) override {
    EXPECT_EQ(status, absl::OkStatus());
    done.Done();
  }

  Countdown done{1};

 private:
  Item item_;
  Countdown* written_ = nullptr;
};

TEST_F(ReactorsTest, AHoldKeepsTheEndFromWhoWritesFromElsewhere) {
  Serve(Form::kReactor);
  const auto stub = NewStub();
  ClientContext context;
  Summary summary;
  Writer writer;
  stub->async()->Record(&context, &summary, &writer);
  writer.AddHold();
  writer.StartCall();
  std::thread thread([&] { writer.Write(1000); });
  writer.done.Wait();
  thread.join();
  EXPECT_EQ(summary.count(), 1000u);
  EXPECT_TRUE(summary.in_order());
}

// --- stop_token() ---

class StoppableService final : public StreamService::Service {
 public:
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>*) override {
    const std::stop_callback told(context->stop_token(),
                                  [this] { cancelled_.Done(); });
    begun_.Done();
    cancelled_.Wait();
    return absl::OkStatus();
  }
  void AwaitBegun() { begun_.Wait(); }

 private:
  Countdown begun_{1};
  Countdown cancelled_{1};
};

TEST_F(ReactorsTest, ABlockingHandlerMayHaveItselfToldOfTheCancellation) {
  auto& service = Serve<StoppableService>();
  const auto stub = NewStub();
  ClientContext context;
  const auto stream = stub->Chat(&context);
  service.AwaitBegun();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
}

// --- Calls that handlers make ---

// Calls another server for each call of its own.
class Relay final : public StreamService::Service {
 public:
  Relay(StreamService::Stub* stub, PropagationOptions options)
      : stub_(stub), options_(options) {}
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>*) override {
    const auto own = ClientContext::FromServerContext(*context, options_);
    const absl::Status status = stub_->Chat(own.get())->Finish();
    deadline_ = own->deadline();
    return status;
  }
  absl::Time deadline() const { return deadline_; }

 private:
  StreamService::Stub* const stub_;
  const PropagationOptions options_;
  absl::Time deadline_;
};

class RelayTest : public ReactorsTest {
 protected:
  // The fixture's own server is the second of the chain.
  void ServeChain(PropagationOptions options = {}) {
    Serve<ListeningService>(&ledger_);
    inner_stub_ = NewStub();
    relay_.emplace(inner_stub_.get(), options);
    ServerBuilder builder;
    int port = 0;
    const std::string host = testing_support::TestAddress();
    builder.AddListeningPort(host + ":0", &port).RegisterService(&*relay_);
    auto outer = builder.BuildAndStart();
    ASSERT_EQ(outer.status(), absl::OkStatus());
    outer_server_ = *std::move(outer);
    outer_stub_ = StreamService::NewStub(
        CreateChannel(host + ":" + std::to_string(port), ChannelOptions()));
  }

  Ledger ledger_;
  std::unique_ptr<StreamService::Stub> inner_stub_;
  std::optional<Relay> relay_;
  std::unique_ptr<StreamService::Stub> outer_stub_;
  std::unique_ptr<Server> outer_server_;
};

TEST_F(RelayTest, ACancelledCallCancelsThoseThatItsHandlerMakes) {
  ServeChain();
  ClientContext context;
  const auto stream = outer_stub_->Chat(&context);
  ledger_.begun.Wait();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kCancelled);
  ledger_.done.Wait();
  EXPECT_EQ(ledger_.cancels, 1);
}

TEST_F(RelayTest, ADeadlineHoldsForThoseThatTheHandlerMakes) {
  ServeChain(PropagationOptions().disable_cancellation_propagation());
  ClientContext context;
  context.set_timeout(absl::Milliseconds(500));
  const absl::Time deadline = context.deadline();
  const auto stream = outer_stub_->Chat(&context);
  EXPECT_EQ(stream->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  ledger_.done.Wait();
  outer_server_.reset();  // When the handler has returned.
  EXPECT_LT(relay_->deadline(), deadline + absl::Milliseconds(400));
}

// --- Calls that are cancelled at any moment ---

class CancelledAnywhereTest : public FormsTest,
                              public ::testing::WithParamInterface<FormOfBoth> {
};

INSTANTIATE_TEST_SUITE_P(Forms, CancelledAnywhereTest, EachFormOfBoth(),
                         NameOfBoth);

TEST_P(CancelledAnywhereTest, EachCallEndsAndTheNextIsAsGoodAsNew) {
  Serve(std::get<1>(GetParam()));
  const auto client = FormClient::New(std::get<0>(GetParam()), channel_);
  const std::vector<Item> items(50, NewItem(1, 3000));
  ListRequest request;
  request.set_count(500);
  request.set_payload_bytes(3000);
  for (int i = 0; i < 60; ++i) {
    ClientContext context;
    std::thread canceller([&context, i] {
      // Later with each call; how much is all the same.
      for (std::atomic<int> spins = 0; spins < i * i * 20;) ++spins;
      context.TryCancel();
    });
    const absl::Status status =
        i % 3 == 0   ? client->List(&context, request).status
        : i % 3 == 1 ? client->Record(&context, items, "beside").status
                     : client->Chat(&context, items, "beside").status;
    canceller.join();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  ClientContext context;
  EXPECT_EQ(client->Chat(&context, items, "").items.size(), items.size());
}

}  // namespace
}  // namespace verbena::end_to_end
