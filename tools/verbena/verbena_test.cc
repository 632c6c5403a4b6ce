// Tests the program verbena as a user runs it. The server is in this process.
//
// The only argument is the path of the program. The environment variables
// VERBENA_DEVICE and VERBENA_TEST_ADDRESS are used.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpc/reflection/v1/reflection.verbena.h"
#include "gtest/gtest.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/rpc.h"
#include "rpc/services/health_service.h"
#include "rpc/services/reflection_service.h"
#include "rpc/support/methods.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "tests/testing/test_tls.h"

namespace verbena::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::ChildProcess;
using testing_support::Ran;
using testing_support::TestAddress;

constexpr char kCheck[] = "grpc.health.v1.Health/Check";
constexpr char kAttach[] = "verbena.end_to_end.Inline/Echo";
constexpr char kDescribe[] = "verbena.end_to_end.Inline/Describe";
constexpr char kReflect[] =
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

std::string program;

class VerbenaTest : public testing::Test {
 protected:
  void Serve(bool with_reflection = true,
             std::shared_ptr<ServerCredentials> credentials =
                 InsecureServerCredentials()) {
    int port = 0;
    ServerBuilder builder;
    builder
        .AddListeningPort(TestAddress() + ":0", std::move(credentials), &port)
        .RegisterService(&health_)
        .RegisterService(&inline_);
    if (with_reflection) builder.RegisterService(&reflection_);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    target_ = absl::StrCat(TestAddress(), ":", port);
  }

  // verbena COMMAND target ARGUMENTS...
  std::vector<std::string> Words(const std::string& command,
                                 std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program, command, target_});
    return arguments;
  }
  Ran Run(const std::string& command, std::vector<std::string> arguments = {}) {
    return testing_support::RunToEnd(Words(command, std::move(arguments)));
  }
  // As Run(), but with `input` as the program's standard input.
  Ran RunWith(const std::string& input, const std::string& command,
              std::vector<std::string> arguments) {
    return testing_support::RunToEnd(Words(command, std::move(arguments)),
                                     input);
  }

  HealthService health_;
  end_to_end::InlineService inline_;
  ReflectionService reflection_;
  std::unique_ptr<Server> server_;
  std::string target_ = TestAddress() + ":9";  // Discard: nobody is there.
};

TEST_F(VerbenaTest, ListsServicesAndMethods) {
  Serve();
  const Ran services = Run("list");
  EXPECT_EQ(services.exit_code, 0) << services.errors;
  EXPECT_THAT(services.output, AllOf(StartsWith("grpc.health.v1.Health\n"),
                                     HasSubstr("v1.ServerReflection\n")));
  const Ran methods = Run("list", {"grpc.health.v1.Health"});
  EXPECT_EQ(methods.exit_code, 0) << methods.errors;
  EXPECT_THAT(methods.output,
              HasSubstr("Health/Watch (grpc.health.v1.HealthCheckRequest) "
                        "returns (stream grpc.health.v1.HealthCheckResponse)"));
}

// A server that has nothing to say to a user, but much to a terminal.
class HostileReflection final
    : public grpc::reflection::v1::ServerReflection::Service {
 public:
  absl::Status ServerReflectionInfo(
      ServerContext* /*context*/,
      ServerReaderWriter<grpc::reflection::v1::ServerReflectionResponse,
                         grpc::reflection::v1::ServerReflectionRequest>* stream)
      override {
    grpc::reflection::v1::ServerReflectionRequest request;
    grpc::reflection::v1::ServerReflectionResponse response;
    if (!stream->Read(&request)) return absl::OkStatus();
    if (request.has_list_services()) {
      response.mutable_list_services_response()->add_service()->set_name(
          "a.B\x1b]0;owned\x07\nverbena: all is well\xc2\x9b"
          "2J");
    } else {
      response.mutable_error_response()->set_error_code(
          static_cast<int>(absl::StatusCode::kInvalidArgument));
      response.mutable_error_response()->set_error_message(
          "gone\x1b[2J\xc2\x9b"
          "2J");
    }
    stream->Write(response);
    return absl::OkStatus();
  }
};

TEST_F(VerbenaTest, AServerHasNoPowerOverTheTerminal) {
  HostileReflection reflection;
  int port = 0;
  ServerBuilder builder;
  builder.AddListeningPort(TestAddress() + ":0", InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&inline_).RegisterService(&reflection);
  const auto server = builder.BuildAndStart();
  ASSERT_EQ(server.status(), absl::OkStatus());
  target_ = absl::StrCat(TestAddress(), ":", port);
  EXPECT_EQ(Run("list").output,
            "a.B\\x1b]0;owned\\x07\\x0averbena: all is well\\xc2\\x9b2J\n");
  EXPECT_EQ(Run("describe", {"a.B"}).errors,
            "verbena: gone\\x1b[2J\\xc2\\x9b2J\n");
}

// As gRPC's servers have it that know no other name.
class OldReflection final : public Service {
 public:
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  OldReflection() : Service("grpc.reflection.v1alpha.ServerReflection") {
    AddMethod(
        internal::NewTypedMethod<RpcType::kBidiStreaming, Request, Response>(
            "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            [](ServerContext*, ServerReaderWriter<Response, Request>* stream) {
              Request request;
              Response response;
              response.mutable_list_services_response()
                  ->add_service()
                  ->set_name("an.old.Service");
              while (stream->Read(&request)) stream->Write(response);
              return absl::OkStatus();
            }));
  }
};

TEST_F(VerbenaTest, AsksByTheNameThatReflectionHadBefore) {
  OldReflection reflection;
  int port = 0;
  ServerBuilder builder;
  builder.AddListeningPort(TestAddress() + ":0", InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&reflection);
  const auto server = builder.BuildAndStart();
  ASSERT_EQ(server.status(), absl::OkStatus());
  target_ = absl::StrCat(TestAddress(), ":", port);
  EXPECT_EQ(Run("list").output, "an.old.Service\n");
}

TEST_F(VerbenaTest, NorHasItThroughMetadata) {
  Serve();
  const Ran ran =
      Run("call", {kDescribe, "--metadata=k\x1b:v\xc2\x9b\nx: y", "--verbose"});
  EXPECT_EQ(ran.errors, "trailing metadata: k\\x1b: v\\xc2\\x9b\\x0ax: y\n");
}

TEST_F(VerbenaTest, DescribesAMessage) {
  Serve();
  const Ran ran = Run("describe", {"grpc.health.v1.HealthCheckRequest"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("string service = 1;"));
  EXPECT_THAT(
      Run("describe", {"grpc.health.v1.HealthCheckResponse.SERVING"}).output,
      StartsWith("enum ServingStatus {"));
  EXPECT_THAT(Run("describe", {"grpc.health.v1"}).errors,
              HasSubstr("\"grpc.health.v1\" is a package"));
  const Ran none = Run("describe", {"grpc.health.v1.Nothing"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no \"grpc.health.v1.Nothing\""));
}

TEST_F(VerbenaTest, CallsWithJson) {
  Serve();
  health_.SetServingStatus("shop.Till", false);
  const Ran all = Run("call", {kCheck});
  EXPECT_EQ(all.exit_code, 0) << all.errors;
  EXPECT_EQ(all.output, "{\n \"status\": \"SERVING\"\n}\n");
  const Ran till = Run("call", {kCheck, R"(--data={"service":"shop.Till"})"});
  EXPECT_THAT(till.output, HasSubstr("NOT_SERVING")) << till.errors;
  const Ran input =
      RunWith("{\n\"service\":\n\"shop.Till\"}", "call", {kCheck, "--data=-"});
  EXPECT_THAT(input.output, HasSubstr("NOT_SERVING")) << input.errors;
}

TEST_F(VerbenaTest, EachLineIsARequestOfAStream) {
  Serve();
  const Ran ran = RunWith(
      "{\"list_services\":\"\"}\n\n{\"file_by_filename\":\"none.proto\"}\n",
      "call", {kReflect, "--data=-"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  const std::vector<std::string> lines =
      absl::StrSplit(ran.output, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << ran.output;
  EXPECT_THAT(lines[0], HasSubstr("\"name\":\"grpc.health.v1.Health\""));
  EXPECT_THAT(lines[1], HasSubstr("error_response"));
}

TEST_F(VerbenaTest, TakesTheRequestBehindTheMethodOrFromAFile) {
  Serve();
  health_.SetServingStatus("shop.Till", false);
  const std::string request = R"({"service":"shop.Till"})";
  const Ran behind = Run("call", {kCheck, request});
  EXPECT_THAT(behind.output, HasSubstr("NOT_SERVING")) << behind.errors;
  const std::string path = testing::TempDir() + "/request.json";
  std::ofstream(path) << request;
  const Ran file = Run("call", {kCheck, "--data=@" + path});
  EXPECT_THAT(file.output, HasSubstr("NOT_SERVING")) << file.errors;
  const Ran twice = Run("call", {kCheck, request, "--data=@" + path});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.errors, HasSubstr("given twice"));
  const Ran none = Run("call", {kCheck, "--data=@" + path + ".none"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("request.json.none can't be read"));
}

TEST_F(VerbenaTest, SendsAndKeepsAttachments) {
  Serve();
  const std::string sent = testing::TempDir() + "/sent";
  const std::string kept = testing::TempDir() + "/kept";
  const std::string bytes(300'000, '\xff');
  std::ofstream(sent) << bytes;
  const Ran ran = Run("call", {kAttach, "--attachment=" + sent,
                               "--response_attachment=" + kept});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::ifstream file(kept);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes);
  const Ran shown = Run("call", {kAttach, "--attachment=" + sent});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.errors, HasSubstr("an attachment of 300000 bytes"));
  for (const std::string path : {"/none", "/"}) {
    const Ran none = Run("call", {kAttach, "--attachment=" + path});
    EXPECT_EQ(none.exit_code, 2);
    EXPECT_THAT(none.errors,
                HasSubstr("--attachment: " + path + " can't be read"));
  }
  const Ran kept_nowhere = Run("call", {kAttach, "--response_attachment=/"});
  EXPECT_EQ(kept_nowhere.exit_code, 2);
  EXPECT_THAT(kept_nowhere.errors, HasSubstr("can't be written"));
  const Ran stream = Run("call", {kReflect, "--attachment=" + sent});
  EXPECT_EQ(stream.exit_code, 2);
  EXPECT_THAT(stream.errors, HasSubstr("ServerReflectionInfo streams"));
}

TEST_F(VerbenaTest, SaysWhatCannotBeReadOrWritten) {
  Serve();
  const auto by_shell = [this](const std::string& redirected) {
    return testing_support::RunToEnd(
        {"/bin/sh", "-c",
         absl::StrCat(program, " call ", target_, " ", redirected)});
  };
  for (const std::string method : {kCheck, kReflect}) {
    for (const std::string input : {"</", "<&-"}) {
      const Ran ran = by_shell(absl::StrCat(method, " --data=- ", input));
      EXPECT_EQ(ran.exit_code, 2) << method << input;
      EXPECT_THAT(ran.errors, HasSubstr("the request can't be read"));
    }
  }
  for (const std::string output : {">/dev/full", ">&-"}) {
    const Ran ran = by_shell(kCheck + (" " + output));
    EXPECT_EQ(ran.exit_code, 2) << output;
    EXPECT_THAT(ran.errors, HasSubstr("standard output can't be written"));
  }
}

TEST_F(VerbenaTest, SendsMetadataThatIsGivenOneByOne) {
  Serve();
  const Ran ran = Run("call", {kDescribe, "--metadata=a:1", "--metadata=b:2"});
  // In base64 "a=1" and "b=2".
  EXPECT_THAT(ran.output, AllOf(HasSubstr("YT0x"), HasSubstr("Yj0y")))
      << ran.errors;
}

TEST_F(VerbenaTest, ShowsTheServersMetadataToWhoAsks) {
  Serve();
  // The server sends the pairs back: "ahead" in its initial metadata, and the
  // others in its trailing metadata.
  const std::string sent = "--metadata=ahead:1,b:2";
  EXPECT_EQ(Run("call", {kDescribe, sent}).errors, "");
  EXPECT_EQ(Run("call", {kDescribe, sent, "--verbose"}).errors,
            "initial metadata: ahead: 1\ntrailing metadata: b: 2\n");
}

TEST_F(VerbenaTest, AnAddressThatIsNoneIsAWrongCommandLine) {
  for (const std::string address : {"127.0.0.1", ":abc"}) {
    const Ran ran = testing_support::RunToEnd({program, "list", address});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.errors, HasSubstr("an address is host:port"));
  }
}

TEST_F(VerbenaTest, ASchemeThatNobodyKnowsIsAWrongTarget) {
  const Ran ran =
      testing_support::RunToEnd({program, "ping", "consul:///orders"});
  EXPECT_EQ(ran.exit_code,
            64 + static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ran.errors, HasSubstr("the scheme \"consul\""));
}

TEST_F(VerbenaTest, ShowsTheServersOfAService) {
  Serve();
  const std::string path = testing::TempDir() + "/servers.json";
  std::ofstream(path) << R"({"servers": [{"address": ")" << target_
                      << R"(", "weight": 3}, "127.0.0.1:1"],
      "serviceConfig": {"loadBalancingConfig": [{"round_robin": {}}]}})";
  const Ran ran =
      testing_support::RunToEnd({program, "channel", "file://" + path});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr(target_));
  EXPECT_THAT(ran.output, HasSubstr("READY              weight 3, "));
  EXPECT_THAT(ran.output, HasSubstr("no connection to 127.0.0.1:1"));
}

TEST_F(VerbenaTest, SaysHowACallEnded) {
  Serve();
  const Ran ran = Run("call", {kCheck, R"(--data={"service":"nobody"})"});
  EXPECT_EQ(ran.exit_code, 64 + static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(ran.errors, StartsWith("verbena: NOT_FOUND: "));
}

TEST_F(VerbenaTest, SaysWhatIsWrongWithARequest) {
  Serve();
  for (const std::string method : {kCheck, kReflect}) {
    const Ran ran = Run("call", {method, R"(--data={"colour":"red"})"});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.errors, HasSubstr("colour"));
  }
  const Ran unknown = Run("call", {"grpc.health.v1.Health/Chek"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("grpc.health.v1.Health.Chek"));
}

TEST_F(VerbenaTest, KnowsMethodsFromFiles) {
  Serve(/*with_reflection=*/false);
  std::ofstream(testing::TempDir() + "/h.proto")
      << "syntax = \"proto3\"; package grpc.health.v1;\n"
         "service Health { rpc Check(Q) returns (A); }\n"
         "message Q { string service = 1; } message A { int32 status = 1; }";
  const Ran without = Run("call", {kCheck});
  EXPECT_EQ(without.exit_code,
            64 + static_cast<int>(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(without.errors, HasSubstr("--proto"));
  const Ran with = Run("call", {kCheck, "--proto=h.proto",
                                "--import_dir=" + testing::TempDir()});
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_EQ(with.output, "{\n \"status\": 1\n}\n");
}

TEST_F(VerbenaTest, TellsOfHealth) {
  Serve();
  EXPECT_EQ(Run("health").exit_code, 0);
  health_.SetServingStatus(false);
  const Ran ran = Run("health");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.output, "NOT_SERVING\n");
}

TEST_F(VerbenaTest, WatchesHealth) {
  Serve();
  ChildProcess child(Words("health", {"--watch"}));
  EXPECT_EQ(child.ReadLine(), "SERVING");
  health_.SetServingStatus(false);
  EXPECT_EQ(child.ReadLine(), "NOT_SERVING");
  health_.Shutdown();
  EXPECT_EQ(child.Wait(),
            64 + static_cast<int>(absl::StatusCode::kUnavailable));
}

TEST_F(VerbenaTest, PingsAnyServer) {
  Serve();
  const Ran ran = Run("ping", {"--count=3"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("connected to " + target_),
                                HasSubstr("3 calls: least ")));
}

TEST_F(VerbenaTest, SaysThatNobodyIsThere) {
  const Ran ran = Run("ping");
  EXPECT_EQ(ran.exit_code,
            64 + static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ran.errors, HasSubstr(target_));
}

TEST_F(VerbenaTest, ShowsASecret) {
  auto keys = std::make_shared<SharedSecretKeys>();
  const std::string secret(32, 's');
  ASSERT_EQ(keys->Replace({{"november", secret}}), absl::OkStatus());
  Serve(/*with_reflection=*/true, SharedSecretServerCredentials(keys));
  const std::string path = testing::TempDir() + "/secret";
  std::ofstream(path) << secret << "\n";
  const std::string file = "--secret_file=" + path;
  EXPECT_EQ(Run("health", {file, "--secret_key=november"}).exit_code, 0);
  EXPECT_EQ(Run("health").exit_code,
            64 + static_cast<int>(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(Run("health", {file}).exit_code, 2);
}

TEST_F(VerbenaTest, CallsAServerByTls) {
  const testing_support::TestCertificates made =
      testing_support::MakeTestCertificates();
  Serve(/*with_reflection=*/true,
        *TlsServerCredentials(
            {.certificate_provider = testing_support::Provider(
                 made.authority.certificate, {made.server}),
             .client_certificates = ClientCertificates::kRequire}));
  const auto file = [](const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + "/verbena-" + name;
    std::ofstream(path) << text;
    return path;
  };
  const std::string ca =
      "--tls-ca=" + file("ca.pem", made.authority.certificate);
  const std::string certificate =
      "--tls-cert=" + file("client.pem", made.client.certificate_chain);
  const std::string key =
      "--tls-key=" + file("client.key", made.client.private_key);
  EXPECT_EQ(Run("health", {ca, certificate, key}).exit_code, 0);
  EXPECT_EQ(Run("health", {ca}).exit_code,
            64 + static_cast<int>(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(Run("health", {ca, certificate}).exit_code, 2);
}

TEST_F(VerbenaTest, ShowsHowItIsUsed) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"list"},
                                             {"call", "a:1"},
                                             {"fly", "a:1"},
                                             {"ping", "a:1", "b"},
                                             {"certs"},
                                             {"certs", "a", "b"}}) {
    std::vector<std::string> command = {program};
    command.insert(command.end(), words.begin(), words.end());
    const Ran ran = testing_support::RunToEnd(command);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_THAT(ran.errors, HasSubstr("verbena list HOST:PORT"));
  }
}

// absl's own parser would end with 1, which stands for "not serving".
TEST(VerbenaFlagsTest, AWrongFlagIsAWrongCommandLine) {
  const Ran ran =
      testing_support::RunToEnd({program, "health", "a:1", "--wait"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, StartsWith("verbena: unknown flag --wait"));
}

TEST(VerbenaFlagsTest, HelpAndVersionAreShown) {
  EXPECT_THAT(testing_support::RunToEnd({program, "--help"}).output,
              HasSubstr("--metadata"));
  EXPECT_EQ(testing_support::RunToEnd({program, "--version"}).output,
            absl::StrCat("verbena ", kVersion, "\n"));
}

}  // namespace
}  // namespace verbena::tool

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "which program?\n");
    return 2;
  }
  verbena::tool::program = argv[1];
  return RUN_ALL_TESTS();
}
