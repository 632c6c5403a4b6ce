// Calls by the names of their methods, with reactors at both sides.

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/byte_message.h"
#include "rpc/client_reactor.h"
#include "rpc/generic_service.h"
#include "rpc/generic_stub.h"
#include "rpc/server_reactor.h"
#include "tests/integration/end_to_end_fixture.h"

namespace verbena::end_to_end {
namespace {

using testing::HasSubstr;

// Sends back what comes, whatever the method.
class Echo final : public ServerBidiReactor<ByteMessage, ByteMessage> {
 public:
  Echo() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    StartWrite(&message_);
  }
  void OnWriteDone(bool /*ok*/) override { StartRead(&message_); }
  void OnDone() override { delete this; }

 private:
  ByteMessage message_;
};

class EchoService final : public CallbackGenericService {
  ServerUnaryReactor* CreateUnaryReactor(CallbackServerContext* context,
                                         const ByteMessage* request,
                                         ByteMessage* response) override {
    response->set_bytes(context->method() + request->bytes());
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(absl::OkStatus());
    return reactor;
  }
  ServerBidiReactor<ByteMessage, ByteMessage>* CreateReactor(
      CallbackServerContext* /*context*/) override {
    return new Echo;
  }
};

// Sends one message, and keeps what comes back.
class OneQuestion final : public ClientBidiReactor<ByteMessage, ByteMessage> {
 public:
  // Makes a call with the message `bytes`, and returns its status.
  absl::Status Ask(const GenericStub& stub, const std::string& method,
                   const std::string& bytes) {
    question_.set_bytes(bytes);
    stub.PrepareBidiStreamingCall(&context_, method, this);
    StartRead(&answer_);
    StartWriteLast(&question_);
    StartCall();
    return status_.get_future().get();
  }
  const std::string& answer() const { return answer_.bytes(); }

  void OnDone(const absl::Status& status) override {
    // Copies the text. A copy of the status would share it by a reference count
    // in Debian's abseil, which is not built for TSan.
    status_.set_value(absl::Status(status.code(), status.message()));
  }

 private:
  ClientContext context_;
  ByteMessage question_;
  ByteMessage answer_;
  std::promise<absl::Status> status_;
};

class GenericReactorsTest : public EndToEndTest {
 protected:
  ~GenericReactorsTest() override { StopServer(); }

  void Serve(GenericService* service) {
    StartServer([service](ServerBuilder& builder) {
      builder.RegisterGenericService(service);
    });
  }

  EchoService echo_;
  CallbackGenericService nothing_;
};

TEST_F(GenericReactorsTest, AnyMethodIsAnswered) {
  Serve(&echo_);
  const GenericStub stub(NewChannel());
  ClientContext context;
  ByteMessage response;
  ASSERT_EQ(stub.UnaryCall(&context, "any.Service/Method", ByteMessage("!"),
                           &response),
            absl::OkStatus());
  EXPECT_EQ(response.bytes(), "any.Service/Method!");
  OneQuestion question;
  EXPECT_EQ(question.Ask(stub, "/any.Service/Stream", "bytes"),
            absl::OkStatus());
  EXPECT_EQ(question.answer(), "bytes");
}

TEST_F(GenericReactorsTest, WhatIsNotOverriddenIsUnimplemented) {
  Serve(&nothing_);
  const GenericStub stub(NewChannel());
  ClientContext context;
  ByteMessage response;
  const absl::Status unary =
      stub.UnaryCall(&context, "any.Service/Method", ByteMessage(), &response);
  EXPECT_TRUE(absl::IsUnimplemented(unary)) << unary;
  EXPECT_THAT(unary.message(), HasSubstr("any.Service/Method"));
  OneQuestion question;
  const absl::Status stream = question.Ask(stub, "any.Service/Stream", "bytes");
  EXPECT_TRUE(absl::IsUnimplemented(stream)) << stream;
  EXPECT_THAT(stream.message(), HasSubstr("any.Service/Stream"));
}

TEST_F(GenericReactorsTest, WhatIsNoNameEndsTheCallBeforeItBegins) {
  Serve(&echo_);
  OneQuestion question;
  const absl::Status status =
      question.Ask(GenericStub(NewChannel()), "no slash", "bytes");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace verbena::end_to_end
