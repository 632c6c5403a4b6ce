#include "proto/compiler/names.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace verbena::compiler {
namespace {

namespace pb = google::protobuf;

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class NamesTest : public testing::Test {
 protected:
  // A file called `name` with a service S that has `methods`.
  const pb::FileDescriptor& File(
      const std::string& name, const std::string& package,
      std::initializer_list<const char*> methods = {}) {
    pb::FileDescriptorProto file;
    file.set_name(name);
    file.set_package(package);
    pb::DescriptorProto* item = file.add_message_type();
    item->set_name("Item");
    item->add_nested_type()->set_name("Inner");
    pb::EnumDescriptorProto* kind = item->add_enum_type();
    kind->set_name("Kind");
    kind->add_value()->set_name("ZERO");
    kind->mutable_value(0)->set_number(0);
    pb::ServiceDescriptorProto* service = file.add_service();
    service->set_name("S");
    for (const char* method : methods) {
      pb::MethodDescriptorProto* added = service->add_method();
      added->set_name(method);
      added->set_input_type("Item");
      added->set_output_type("Item");
    }
    const pb::FileDescriptor* built = pool_.BuildFile(file);
    EXPECT_NE(built, nullptr);
    return *built;
  }

  pb::DescriptorPool pool_;
};

TEST_F(NamesTest, KeywordsGetAnUnderscore) {
  EXPECT_EQ(CppIdentifier("delete"), "delete_");
  EXPECT_EQ(CppIdentifier("co_await"), "co_await_");
  EXPECT_EQ(CppIdentifier("errno"), "errno_");
  EXPECT_EQ(CppIdentifier("Delete"), "Delete");
  EXPECT_EQ(CppIdentifier("delete_"), "delete_");
}

TEST_F(NamesTest, TheNameOnTheWireIsThatOfTheProto) {
  const pb::FileDescriptor& file = File("a.proto", "p.q", {"delete"});
  EXPECT_EQ(MethodFullName(*file.service(0)->method(0)), "p.q.S/delete");
  EXPECT_EQ(MethodFunction(*file.service(0)->method(0)), "delete_");
}

TEST_F(NamesTest, TheNameOnTheWireNeedsNoPackage) {
  const pb::FileDescriptor& file = File("a.proto", "", {"M"});
  EXPECT_EQ(MethodFullName(*file.service(0)->method(0)), "S/M");
  EXPECT_THAT(PackageParts(file), IsEmpty());
}

TEST_F(NamesTest, PackagesAreSplitAtTheirDots) {
  EXPECT_THAT(PackageParts(File("a.proto", "a.b.c")),
              ElementsAre("a", "b", "c"));
}

TEST_F(NamesTest, CallsAreOfFourKinds) {
  pb::FileDescriptorProto file;
  File("a.proto", "p",
       {"Unary", "ServerStreaming", "ClientStreaming", "BidiStreaming"})
      .CopyTo(&file);
  file.set_name("b.proto");
  file.set_package("q");
  pb::ServiceDescriptorProto& service = *file.mutable_service(0);
  for (pb::MethodDescriptorProto& method : *service.mutable_method()) {
    method.set_input_type("Item");
    method.set_output_type("Item");
  }
  for (int i : {2, 3}) service.mutable_method(i)->set_client_streaming(true);
  for (int i : {1, 3}) service.mutable_method(i)->set_server_streaming(true);
  const pb::FileDescriptor* built = pool_.BuildFile(file);
  ASSERT_NE(built, nullptr);
  for (int i = 0; i < 4; ++i) {
    const pb::MethodDescriptor& method = *built->service(0)->method(i);
    EXPECT_EQ(CallKind(method), method.name());
  }
}

TEST_F(NamesTest, FilesKeepTheirDirectory) {
  const pb::FileDescriptor& file = File("a/b-c.proto", "p");
  EXPECT_EQ(HeaderFile(file), "a/b-c.verbena.h");
  EXPECT_EQ(SourceFile(file), "a/b-c.verbena.cc");
  EXPECT_EQ(MessageHeaderFile(file), "a/b-c.pb.h");
}

TEST_F(NamesTest, SimilarFilesHaveDifferentGuards) {
  std::set<std::string> guards;
  int package = 0;
  for (const char* name :
       {"a-b.proto", "a_b.proto", "a/b.proto", "a.b.proto", "A-b.proto"}) {
    guards.insert(HeaderGuard(File(name, absl::StrCat("p", package++))));
  }
  EXPECT_EQ(guards.size(), 5u);
  EXPECT_TRUE(guards.contains("VERBENA_a_2db_2eproto_INCLUDED"));
}

TEST_F(NamesTest, MembersAvoidTheMethods) {
  const MemberNames names = ChooseMemberNames(
      *File("a.proto", "p",
            {"channel_", "channel__", "AsyncStub", "M", "method_M_"})
           .service(0));
  EXPECT_EQ(names.channel, "channel___");
  EXPECT_EQ(names.stub, "stub_");
  EXPECT_EQ(names.async_class, "AsyncStub_");
  EXPECT_THAT(
      names.descriptors,
      ElementsAre("method_channel__", "method_channel___", "method_AsyncStub_",
                  "method_M__", "method_method_M__"));
}

TEST_F(NamesTest, TypesOfAPackageIncludeNestedOnes) {
  EXPECT_THAT(TypeNamesOfPackage(File("a.proto", "p")),
              UnorderedElementsAre("Item", "Item_Inner", "Item_Kind"));
}

}  // namespace
}  // namespace verbena::compiler
