#include "proto/compiler/generator.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/compiler/in_memory_files.h"

namespace verbena::compiler {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Generates from `text` behind a line that names syntax and package, with a
// message called Item.
Generated From(const std::string& text, const std::string& parameter = "") {
  InMemorySources sources;
  sources.Add("file.proto", "syntax = \"proto3\"; package test;\n" + text +
                                "\nmessage Item {}\n");
  return Generate(sources, "file.proto", parameter);
}

TEST(GeneratorTest, WritesAHeaderAndASourceFile) {
  const Generated generated = From("service S { rpc M(Item) returns (Item); }");
  EXPECT_EQ(generated.error, "");
  EXPECT_THAT(generated.files, SizeIs(2));
  EXPECT_THAT(generated.files, Contains(Key("file.verbena.h")));
  EXPECT_THAT(generated.files, Contains(Key("file.verbena.cc")));
}

TEST(GeneratorTest, WritesBothFilesWithoutServicesToo) {
  const Generated generated = From("");
  EXPECT_EQ(generated.error, "");
  EXPECT_THAT(generated.files, SizeIs(2));
  EXPECT_THAT(generated.files.at("file.verbena.h"), Not(HasSubstr("class")));
}

TEST(GeneratorTest, AcceptsProto3Optional) {
  EXPECT_EQ(From("message M { optional int32 a = 1; }").error, "");
  EXPECT_EQ(
      Generator().GetSupportedFeatures() & Generator::FEATURE_PROTO3_OPTIONAL,
      Generator::FEATURE_PROTO3_OPTIONAL);
}

TEST(GeneratorTest, IncludesTheRuntimeFromWhereItIsTold) {
  const std::string service = "service S { rpc M(Item) returns (Item); }";
  const std::string installed = From(service).files["file.verbena.h"];
  EXPECT_THAT(installed, HasSubstr("\n#include \"verbena/service.h\"\n"));
  EXPECT_THAT(installed, Not(HasSubstr("\"rpc/")));
  const std::string here =
      From(service, "include_prefix=rpc").files["file.verbena.h"];
  EXPECT_THAT(here, HasSubstr("\n#include \"rpc/service.h\"\n"));
  EXPECT_THAT(here, HasSubstr("\n#include \"absl/status/status.h\"\n"));
  EXPECT_THAT(here, Not(HasSubstr("\"verbena/")));
}

TEST(GeneratorTest, RefusesOtherParameters) {
  const Generated generated = From("", "services_namespace=grpc");
  EXPECT_THAT(generated.files, IsEmpty());
  EXPECT_EQ(generated.error,
            "unknown parameter \"services_namespace=grpc\": "
            "protoc-gen-verbena takes include_prefix=FOLDER and nothing else");
}

TEST(GeneratorTest, RefusesAnIncludePrefixThatIsNoFolder) {
  for (const char* parameter :
       {"include_prefix=", "include_prefix=a\"b", "include_prefix=a,b=c"}) {
    const Generated generated = From("", parameter);
    EXPECT_THAT(generated.files, IsEmpty());
    EXPECT_THAT(generated.error, HasSubstr("must name a folder")) << parameter;
  }
}

TEST(GeneratorTest, WritesNothingWhenItRefuses) {
  const Generated generated =
      From("service S { rpc async(Item) returns (Item); }");
  EXPECT_THAT(generated.files, IsEmpty());
  EXPECT_THAT(generated.error, StartsWith("service \"test.S\", method"));
}

// A callback is for one answer; all else there is for streams too.
TEST(GeneratorTest, OffersEveryMethodInEveryForm) {
  const std::string unary =
      From("service S { rpc M(Item) returns (Item); }").files["file.verbena.h"];
  const std::string streams =
      From("service S { rpc M(stream Item) returns (stream Item); }")
          .files["file.verbena.h"];
  EXPECT_THAT(unary, HasSubstr("::verbena::UnaryCallback on_done)"));
  EXPECT_THAT(streams, Not(HasSubstr("::verbena::UnaryCallback")));
  for (const char* form : {"ClientUnaryReactor* reactor", "::UnaryAwaitable(",
                           "::verbena::ServerUnaryReactor* M(",
                           "::verbena::Task<::absl::Status> M("}) {
    EXPECT_THAT(unary, HasSubstr(form));
  }
  for (const char* form :
       {"ClientReaderWriter<", "ClientBidiReactor<",
        "CoroutineClientReaderWriter<", "ServerReaderWriter<",
        "ServerBidiReactor<", "CoroutineServerReaderWriter<"}) {
    EXPECT_THAT(streams, HasSubstr(form));
  }
}

TEST(GeneratorTest, NamesTheFileBeforeEveryReasonButTheFirst) {
  // protoc itself names it before the first.
  EXPECT_THAT(From("service Stub {} service Service {}").error,
              HasSubstr("\nfile.proto: service \"test.Service\""));
}

}  // namespace
}  // namespace verbena::compiler
