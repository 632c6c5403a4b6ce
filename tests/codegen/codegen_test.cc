// That generated code compiles is most of this test. The rest: the classes are
// what a user expects of them.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "other/place/codegen/renamed.verbena.h"
#include "proto/compiler/testdata/nasty-names.verbena.h"
#include "proto/compiler/testdata/no_package.verbena.h"
#include "proto/compiler/testdata/no_services.verbena.h"
#include "rpc/service.h"
#include "tests/codegen/generated.verbena.h"

namespace {

namespace nasty = ::verbena::test::deep::absl;

using testing::ElementsAre;

std::vector<std::string> MethodNames(const verbena::Service& service) {
  std::vector<std::string> names;
  for (const auto& method : service.methods()) {
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

// What method `index` of `service` answers to an empty request.
absl::Status Answer(const verbena::Service& service, int index) {
  const verbena::internal::UnaryMethod& method = *service.methods()[index];
  std::unique_ptr<verbena::internal::CallMessages> messages =
      method.NewMessages();
  return method.Run(nullptr, messages.get());
}

TEST(CodegenTest, CallsReachTheOverride) {
  EXPECT_EQ(Answer(DeleteService(), 1), absl::AlreadyExistsError("0"));
}

TEST(CodegenTest, MethodsThatNobodyOverridesAreUnimplemented) {
  EXPECT_EQ(Answer(DeleteService(), 0),
            absl::UnimplementedError("verbena.test.deep.absl.delete/class is "
                                     "not implemented by this server"));
}

TEST(CodegenTest, AStubCanBeReplacedInTests) {
  FakeStub fake;
  generated::S::StubInterface& stub = fake;
  generated::M message;
  EXPECT_TRUE(stub.Call(nullptr, message, &message).ok());
}

TEST(CodegenTest, StubsComeFromNewStub) {
  static_assert(
      std::is_same_v<decltype(verbena::test::renamed::Renamed::NewStub(
                         std::declval<std::shared_ptr<verbena::Channel>>())),
                     std::unique_ptr<verbena::test::renamed::Renamed::Stub>>);
  static_assert(
      std::is_base_of_v<nasty::Members::StubInterface, nasty::Members::Stub>);
}

}  // namespace
