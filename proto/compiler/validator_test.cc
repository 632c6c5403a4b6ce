#include "proto/compiler/validator.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/compiler/in_memory_files.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ValidatorTest : public testing::Test {
 protected:
  // Validates the file that is all of `text`.
  std::vector<std::string> Problems(const std::string& text) {
    InMemorySources sources;
    sources.Add("imported.proto",
                "syntax = \"proto2\"; package test; message Far { message "
                "Away {} }");
    sources.Add("file.proto", text);
    FirstError errors;
    pb::compiler::Importer importer(&sources, &errors);
    const pb::FileDescriptor* file = importer.Import("file.proto");
    if (file == nullptr) return {errors.text()};
    return Validate(*file);
  }

  // As Problems(), for `text` behind a line that names syntax and package, so
  // that the first line of `text` is line 2. Adds a message called Item.
  std::vector<std::string> ProblemsOf(const std::string& text) {
    return Problems("syntax = \"proto3\"; package test;\n" + text +
                    "\nmessage Item {}\n");
  }

  // The first of them; empty when there is none.
  std::string Refusal(const std::string& text) {
    const std::vector<std::string> problems = ProblemsOf(text);
    return problems.empty() ? "" : problems.front();
  }

  // The refusal of a service S that has only `method`.
  std::string RefusalOfMethod(const std::string& method) {
    return Refusal("service S { rpc " + method + " }");
  }
};

TEST_F(ValidatorTest, FindsNothingWrongWithAnOrdinaryService) {
  EXPECT_THAT(ProblemsOf("service S { rpc M(Item) returns (Item); }"),
              IsEmpty());
  EXPECT_THAT(ProblemsOf(""), IsEmpty());
}

TEST_F(ValidatorTest, FindsNothingWrongWithStreams) {
  EXPECT_EQ(RefusalOfMethod("Chat(stream Item) returns (Item);"), "");
  EXPECT_EQ(RefusalOfMethod("Chat(Item) returns (stream Item);"), "");
  EXPECT_EQ(RefusalOfMethod("Chat(stream Item) returns (stream Item);"), "");
}

TEST_F(ValidatorTest, LooksAtTheNamesOfStreamingMethodsToo) {
  EXPECT_THAT(RefusalOfMethod("async(stream Item) returns (stream Item);"),
              HasSubstr("method \"async\" (line 2): \"async\" is the name of"));
  EXPECT_THAT(Refusal("service S {\n"
                      "  rpc delete(stream Item) returns (Item);\n"
                      "  rpc delete_(Item) returns (stream Item);\n"
                      "}"),
              HasSubstr("so would that of method \"delete\"; rename"));
}

TEST_F(ValidatorTest, NamesEveryReasonAtOnce) {
  EXPECT_THAT(ProblemsOf("service S {\n"
                         "  rpc Stub(Item) returns (Item);\n"
                         "  rpc async(Item) returns (Item);\n"
                         "}"),
              ElementsAre(HasSubstr("method \"Stub\" (line 3)"),
                          HasSubstr("method \"async\" (line 4)")));
}

TEST_F(ValidatorTest, RefusesMethodsNamedLikeGeneratedMembers) {
  for (const char* name :
       {"async", "async_interface", "Service", "Stub", "StubInterface"}) {
    EXPECT_EQ(
        RefusalOfMethod(absl::StrCat(name, "(Item) returns (Item);")),
        absl::StrFormat("service \"test.S\", method \"%s\" (line 2): \"%s\" is "
                        "the name of a generated class or member; rename the "
                        "method",
                        name, name));
  }
}

TEST_F(ValidatorTest, RefusesServicesNamedLikeGeneratedMembers) {
  for (const char* name :
       {"NewStub", "Service", "Stub", "StubInterface", "service_full_name"}) {
    EXPECT_EQ(Refusal(absl::StrCat("service ", name, " {}")),
              absl::StrFormat("service \"test.%s\" (line 2): the generated "
                              "class would have a member of its own name, "
                              "\"%s\"; rename the service",
                              name, name));
  }
}

TEST_F(ValidatorTest, RefusesTwoMethodsOfOneCppName) {
  EXPECT_THAT(Refusal("service S {\n"
                      "  rpc delete(Item) returns (Item);\n"
                      "  rpc delete_(Item) returns (Item);\n"
                      "}"),
              AllOf(HasSubstr("method \"delete_\" (line 4)"),
                    HasSubstr("so would that of method \"delete\"; rename")));
}

TEST_F(ValidatorTest, RefusesTwoServicesOfOneCppName) {
  EXPECT_THAT(Refusal("service class {} service class_ {}"),
              HasSubstr("service \"test.class_\" (line 2): another service"));
}

TEST_F(ValidatorTest, RefusesServicesNamedLikeANestedMessage) {
  EXPECT_THAT(Refusal("message A { message B {} } service A_B {}"),
              HasSubstr("class that is called \"A_B\" too; rename"));
  EXPECT_THAT(Refusal("message A { enum E { Z = 0; } } service A_E {}"),
              HasSubstr("class that is called \"A_E\" too; rename"));
  EXPECT_THAT(Refusal("import \"imported.proto\"; service Far_Away {}"),
              HasSubstr("class that is called \"Far_Away\" too; rename"));
}

TEST_F(ValidatorTest, LeavesServicesNamedLikeAMessageToProtoc) {
  EXPECT_THAT(Refusal("service Item {}"),
              HasSubstr("protoc: file.proto:2: \"Item\" is already defined"));
}

TEST_F(ValidatorTest, RefusesPackagesThatProtocCannotPutIntoCpp) {
  EXPECT_THAT(Problems("syntax = \"proto3\"; package a.class.b; service S {}"),
              ElementsAre(HasSubstr(
                  "package \"a.class.b\": \"class\" is a reserved word")));
}

// The two names were found by search: they really have the same hash.
TEST_F(ValidatorTest, RefusesMethodsWhoseHashesCollide) {
  EXPECT_THAT(
      Problems("syntax = \"proto3\"; package verbena.test; message Item {}\n"
               "service Colliding {\n"
               "  rpc Mdx1boaeMgtF(Item) returns (Item);\n"
               "  rpc MKCHPSKWyAm6(Item) returns (Item);\n"
               "}"),
      ElementsAre(
          "service \"verbena.test.Colliding\", method \"MKCHPSKWyAm6\" (line "
          "4): the hash by which it is called, 11b8f96f1f1a604a, is also "
          "that of \"verbena.test.Colliding/Mdx1boaeMgtF\"; rename one of "
          "them"));
}

}  // namespace
}  // namespace verbena::compiler
