// Tests that generated code compiles and that its classes work as expected.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/message_lite.h"
#include "gtest/gtest.h"
#include "other/place/codegen/renamed.verbena.h"
#include "proto/compiler/testdata/nasty-names.verbena.h"
#include "proto/compiler/testdata/no_package.verbena.h"
#include "proto/compiler/testdata/no_services.verbena.h"
#include "rpc/buffer.h"
#include "rpc/client_stream.h"
#include "rpc/internal/server/method_registry.h"
#include "rpc/server_stream.h"
#include "rpc/service.h"
#include "rpc/stream.h"
#include "rpc/support/method.h"
#include "tests/codegen/generated.verbena.h"

namespace {

namespace nasty = ::verbena::test::deep::absl;

using verbena::test::renamed::Renamed;
using verbena::test::shared::Outer_Inner;

using testing::ElementsAre;

std::vector<const verbena::internal::Method*> Methods(
    const verbena::Service& service) {
  verbena::internal::MethodRegistry registry;
  EXPECT_EQ(registry.AddService(service, verbena::HandlerMode::kWorkerPool),
            absl::OkStatus());
  return registry.all();
}

std::vector<std::string> MethodNames(const verbena::Service& service) {
  std::vector<std::string> names;
  for (const verbena::internal::Method* method : Methods(service)) {
    names.push_back(method->full_name());
  }
  return names;
}

// Overrides by the escaped name what the .proto file calls `delete/new`.
class DeleteService final : public nasty::delete_::Service {
  absl::Status new_(verbena::ServerContext* /*context*/,
                    const nasty::class__new* request,
                    nasty::class__Default* /*response*/) override {
    return absl::AlreadyExistsError(std::to_string(request->int_()));
  }
};

// A test's own stub.
class FakeStub final : public generated::S::StubInterface {
 public:
  absl::Status Call(verbena::ClientContext* /*context*/,
                    const generated::M& /*request*/,
                    generated::M* /*response*/) override {
    return absl::OkStatus();
  }
  async_interface* async() override { return nullptr; }
};

// A test's own stub of a method that streams: what is written comes back.
class EchoingStub final : public Renamed::StubInterface {
 public:
  absl::Status Call(verbena::ClientContext* /*context*/,
                    const Outer_Inner& /*request*/,
                    Outer_Inner* /*response*/) override {
    return absl::OkStatus();
  }
  std::unique_ptr<verbena::ClientReaderWriter<Outer_Inner, Outer_Inner>>
  Exchange(verbena::ClientContext* /*context*/) override {
    return std::make_unique<
        verbena::ClientReaderWriter<Outer_Inner, Outer_Inner>>(
        std::make_unique<EchoingStream>());
  }
  async_interface* async() override { return nullptr; }

 private:
  class EchoingStream final : public verbena::ClientStream {
   public:
    bool Write(const google::protobuf::MessageLite& message,
               verbena::Attachment /*attachment*/) override {
      written_.push_back(message.SerializeAsString());
      return true;
    }
    bool Read(google::protobuf::MessageLite* message,
              verbena::Buffer* /*attachment*/) override {
      if (read_ == written_.size()) return false;
      return message->ParseFromString(written_[read_++]);
    }
    bool WritesDone() override { return true; }
    absl::Status Finish() override { return absl::OkStatus(); }

   private:
    std::vector<std::string> written_;
    size_t read_ = 0;
  };
};

TEST(CodegenTest, MethodsKeepTheNamesOfTheProtoOnTheWire) {
  EXPECT_THAT(MethodNames(DeleteService()),
              ElementsAre("verbena.test.deep.absl.delete/class",
                          "verbena.test.deep.absl.delete/new",
                          "verbena.test.deep.absl.delete/Default",
                          "verbena.test.deep.absl.delete/co_await",
                          "verbena.test.deep.absl.delete/requires",
                          "verbena.test.deep.absl.delete/NULL",
                          "verbena.test.deep.absl.delete/errno"));
  EXPECT_THAT(MethodNames(Global::Service()), ElementsAre("Global/Call"));
  EXPECT_THAT(MethodNames(NoMethods::Service()), ElementsAre());
}

TEST(CodegenTest, ServicesKnowTheirFullName) {
  EXPECT_EQ(DeleteService().full_name(), "verbena.test.deep.absl.delete");
  static_assert(Global::service_full_name() == std::string_view("Global"));
}

// A stream on which one empty message comes.
class EmptyMessage final : public verbena::MessageReaderWriter {
 public:
  bool Read(google::protobuf::MessageLite* message,
            verbena::Buffer* /*attachment*/) override {
    message->Clear();
    return !std::exchange(read_, true);
  }
  bool Write(const google::protobuf::MessageLite& /*message*/,
             verbena::Attachment /*attachment*/) override {
    return true;
  }

 private:
  bool read_ = false;
};

// Returns the answer of method `index` of `service` to an empty request.
absl::Status Answer(const verbena::Service& service, size_t index) {
  const verbena::internal::Method& method = *Methods(service)[index];
  std::unique_ptr<verbena::internal::CallMessages> messages =
      method.NewMessages();
  EmptyMessage stream;
  return method.Run(nullptr, messages.get(), &stream);
}

TEST(CodegenTest, CallsReachTheOverride) {
  EXPECT_EQ(Answer(DeleteService(), 1), absl::AlreadyExistsError("0"));
}

TEST(CodegenTest, MethodsThatNobodyOverridesAreUnimplemented) {
  EXPECT_EQ(Answer(DeleteService(), 0),
            absl::UnimplementedError("verbena.test.deep.absl.delete/class is "
                                     "not implemented by this server"));
}

TEST(CodegenTest, StreamingMethodsThatNobodyOverridesAreUnimplemented) {
  const nasty::ClientReader::Service service;
  const auto methods = Methods(service);
  for (size_t i = 0; i < methods.size(); ++i) {
    EXPECT_TRUE(methods[i]->streams());
    EXPECT_EQ(Answer(service, i),
              absl::UnimplementedError(methods[i]->full_name() +
                                       " is not implemented by this server"));
  }
}

TEST(CodegenTest, AStreamingStubCanBeReplacedInTests) {
  EchoingStub echoing;
  Renamed::StubInterface& stub = echoing;
  const auto stream = stub.Exchange(nullptr);
  Outer_Inner message;
  message.set_text("hello");
  EXPECT_TRUE(stream->Write(message));
  message.Clear();
  EXPECT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.text(), "hello");
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(CodegenTest, StubsOfEachKindReturnWhatReadsAndWrites) {
  using Stub = nasty::ClientReader::StubInterface;
  using nasty::Item;
  static_assert(
      std::is_same_v<decltype(&Stub::ServerStreamingCall),
                     std::unique_ptr<verbena::ClientReader<Item>> (Stub::*)(
                         verbena::ClientContext*, const Item&)>);
  static_assert(std::is_same_v<decltype(&Stub::ClientStreamingCall),
                               std::unique_ptr<verbena::ClientWriter<Item>> (
                                   Stub::*)(verbena::ClientContext*, Item*)>);
  static_assert(std::is_same_v<decltype(&Stub::co_yield_),
                               std::unique_ptr<verbena::ClientReaderWriter<
                                   nasty::class_, nasty::class__new>> (Stub::*)(
                                   verbena::ClientContext*)>);
}

TEST(CodegenTest, HandlersOfEachKindGetWhatReadsAndWrites) {
  using Service = nasty::ClientReader::Service;
  using nasty::Item;
  static_assert(std::is_same_v<decltype(&Service::ServerStreamingCall),
                               absl::Status (Service::*)(
                                   verbena::ServerContext*, const Item*,
                                   verbena::ServerWriter<Item>*)>);
  static_assert(std::is_same_v<decltype(&Service::ClientStreamingCall),
                               absl::Status (Service::*)(
                                   verbena::ServerContext*,
                                   verbena::ServerReader<Item>*, Item*)>);
  static_assert(
      std::is_same_v<
          decltype(&Service::co_yield_),
          absl::Status (Service::*)(
              verbena::ServerContext*,
              verbena::ServerReaderWriter<nasty::class__new, nasty::class_>*)>);
}

TEST(CodegenTest, AStubCanBeReplacedInTests) {
  FakeStub fake;
  generated::S::StubInterface& stub = fake;
  generated::M message;
  EXPECT_TRUE(stub.Call(nullptr, message, &message).ok());
}

TEST(CodegenTest, StubsComeFromNewStub) {
  static_assert(
      std::is_same_v<decltype(Renamed::NewStub(
                         std::declval<std::shared_ptr<verbena::Channel>>())),
                     std::unique_ptr<Renamed::Stub>>);
  static_assert(
      std::is_base_of_v<nasty::Members::StubInterface, nasty::Members::Stub>);
}

}  // namespace
