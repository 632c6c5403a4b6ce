// Reflection, as a client finds it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"
#include "rpc/generic_stub.h"
#include "rpc/rpc.h"
#include "rpc/services/reflection_service.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_extensions.pb.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DynamicMessageFactory;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using testing::ElementsAre;

class ReflectionTest : public EndToEndTest {
 protected:
  ReflectionTest() {
    StartServer([this](ServerBuilder& builder) {
      builder.RegisterService(&reflection_);
      builder.SetWorkerThreads(1).SetMaxWorkerThreads(1);
    });
    channel_ = NewChannel();
    context_.set_timeout(absl::Minutes(2));
    stream_ =
        ServerReflection::NewStub(channel_)->ServerReflectionInfo(&context_);
  }
  ~ReflectionTest() override {
    stream_.reset();
    StopServer();
  }

  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    EXPECT_EQ(response.original_request().SerializeAsString(),
              request.SerializeAsString());
    return response;
  }
  ServerReflectionResponse AskForSymbol(const std::string& symbol) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    return Ask(request);
  }
  static std::vector<std::string> Services(
      const ServerReflectionResponse& response) {
    std::vector<std::string> names;
    for (const auto& each : response.list_services_response().service()) {
      names.push_back(each.name());
    }
    return names;
  }
  static std::vector<std::string> FileNames(
      const ServerReflectionResponse& response) {
    std::vector<std::string> names;
    for (const std::string& bytes :
         response.file_descriptor_response().file_descriptor_proto()) {
      FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.push_back(file.name());
    }
    return names;
  }
  static absl::StatusCode Error(const ServerReflectionResponse& response) {
    return static_cast<absl::StatusCode>(
        response.error_response().error_code());
  }

  ReflectionService reflection_;
  std::shared_ptr<Channel> channel_;
  ClientContext context_;
  std::unique_ptr<
      ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>>
      stream_;
};

TEST_F(ReflectionTest, AllServicesAreListed) {
  ServerReflectionRequest request;
  request.set_host("myself");
  request.set_list_services("");
  const ServerReflectionResponse response = Ask(request);
  EXPECT_EQ(response.valid_host(), "myself");
  EXPECT_THAT(
      Services(response),
      ElementsAre("grpc.reflection.v1.ServerReflection",
                  "verbena.end_to_end.EndToEnd", "verbena.end_to_end.Inline",
                  "verbena.end_to_end.StreamService"));
}

TEST_F(ReflectionTest, FilesAreFoundByWhatIsInThem) {
  constexpr char kFile[] = "tests/integration/test_service.proto";
  for (const char* symbol :
       {"verbena.end_to_end.EndToEnd", "verbena.end_to_end.EndToEnd.Echo",
        "verbena.end_to_end.EchoRequest",
        "verbena.end_to_end.EchoRequest.payload"}) {
    EXPECT_THAT(FileNames(AskForSymbol(symbol)), ElementsAre(kFile)) << symbol;
  }
  ServerReflectionRequest request;
  request.set_file_by_filename(kFile);
  EXPECT_THAT(FileNames(Ask(request)), ElementsAre(kFile));
}

TEST_F(ReflectionTest, ExtensionsAreFoundAndImportsComeAlong) {
  constexpr char kExtended[] = "verbena.end_to_end.Extended";
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type(kExtended);
  const auto numbers = Ask(request).all_extension_numbers_response();
  EXPECT_EQ(numbers.base_type_name(), kExtended);
  EXPECT_THAT(numbers.extension_number(), ElementsAre(note.number()));
  auto* const extension = request.mutable_file_containing_extension();
  extension->set_containing_type(kExtended);
  extension->set_extension_number(note.number());
  EXPECT_THAT(FileNames(Ask(request)),
              ElementsAre("tests/integration/test_extensions.proto",
                          "google/protobuf/any.proto"));
}

TEST_F(ReflectionTest, WhatThereIsNotIsAnErrorAndTheStreamGoesOn) {
  EXPECT_EQ(Error(AskForSymbol("no.such.Thing")), absl::StatusCode::kNotFound);
  EXPECT_EQ(Error(AskForSymbol("")), absl::StatusCode::kNotFound);
  // Protobuf would take seconds for more.
  EXPECT_EQ(Error(AskForSymbol(std::string(1024, '.'))),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Error(AskForSymbol(std::string(1025, '.'))),
            absl::StatusCode::kInvalidArgument);
  ServerReflectionRequest request;
  request.set_file_by_filename("../../etc/passwd");
  EXPECT_EQ(Error(Ask(request)), absl::StatusCode::kNotFound);
  request.set_all_extension_numbers_of_type("no.such.Message");
  EXPECT_EQ(Error(Ask(request)), absl::StatusCode::kNotFound);
  request.mutable_file_containing_extension()->set_containing_type(
      "verbena.end_to_end.Extended");
  request.mutable_file_containing_extension()->set_extension_number(-1);
  EXPECT_EQ(Error(Ask(request)), absl::StatusCode::kNotFound);
  request.Clear();
  EXPECT_EQ(Error(Ask(request)), absl::StatusCode::kInvalidArgument);
  stream_->WritesDone();
  EXPECT_EQ(stream_->Finish(), absl::OkStatus());
}

TEST_F(ReflectionTest, TheNameThatTheProtocolHadBeforeIsServedToo) {
  ServerReflectionRequest request;
  request.set_list_services("");
  ClientContext context;
  const auto stream = GenericStub(channel_).BidiStreamingCall(
      &context,
      "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  ASSERT_TRUE(stream->Write(ByteMessage(request.SerializeAsString())));
  ByteMessage message;
  ASSERT_TRUE(stream->Read(&message));
  ServerReflectionResponse response;
  ASSERT_TRUE(response.ParseFromString(message.bytes()));
  EXPECT_EQ(Services(response).size(), 4u);
}

TEST_F(ReflectionTest, StreamsHoldNoWorker) {
  ServerReflectionRequest request;
  request.set_list_services("");
  struct Asked {
    ClientContext context;
    std::unique_ptr<
        ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>>
        stream;
  };
  std::vector<Asked> others(3);
  const auto stub = ServerReflection::NewStub(channel_);
  for (Asked& each : others) {
    each.context.set_timeout(absl::Minutes(1));
    each.stream = stub->ServerReflectionInfo(&each.context);
    ServerReflectionResponse response;
    ASSERT_TRUE(each.stream->Write(request));
    ASSERT_TRUE(each.stream->Read(&response));
    EXPECT_EQ(Services(response).size(), 4u);
  }
  // The only one is there for others.
  EXPECT_EQ(EchoProblem(*EndToEnd::NewStub(channel_), 100, 1), "");
}

// Calls a method as a tool does that knows only the address of the server.
TEST_F(ReflectionTest, AToolCallsAMethodThatItHasJustLearntOf) {
  const auto files = AskForSymbol("verbena.end_to_end.EndToEnd")
                         .file_descriptor_response()
                         .file_descriptor_proto();
  DescriptorPool pool;
  for (int i = files.size() - 1; i >= 0; --i) {
    FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[i]));
    ASSERT_NE(pool.BuildFile(file), nullptr);
  }
  const auto* method =
      pool.FindMethodByName("verbena.end_to_end.EndToEnd.Echo");
  ASSERT_NE(method, nullptr);
  DynamicMessageFactory factory(&pool);
  const auto make = [&](const Descriptor* type) {
    return std::unique_ptr<Message>(factory.GetPrototype(type)->New());
  };
  const auto request = make(method->input_type());
  request->GetReflection()->SetString(
      request.get(), method->input_type()->FindFieldByName("payload"), "hi");
  ClientContext call_context;
  ByteMessage answer;
  ASSERT_EQ(GenericStub(channel_).UnaryCall(
                &call_context, "verbena.end_to_end.EndToEnd/Echo",
                ByteMessage(request->SerializeAsString()), &answer),
            absl::OkStatus());
  const auto reply = make(method->output_type());
  ASSERT_TRUE(reply->ParseFromString(answer.bytes()));
  EXPECT_EQ(reply->GetReflection()->GetString(
                *reply, method->output_type()->FindFieldByName("payload")),
            "hi");
}

}  // namespace
}  // namespace verbena::end_to_end
