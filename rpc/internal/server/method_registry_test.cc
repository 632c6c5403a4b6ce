#include "rpc/internal/server/method_registry.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/empty.pb.h"
#include "gtest/gtest.h"
#include "proto/method_hash.h"
#include "rpc/support/methods.h"

namespace verbena::internal {
namespace {

using google::protobuf::Empty;
using testing::HasSubstr;

absl::Status Handle(ServerContext*, const Empty*, Empty*) {
  return absl::OkStatus();
}

class TwoMethods : public Service {
 public:
  TwoMethods() : Service("test.Two") {
    AddMethod(NewTypedMethod<RpcType::kUnary, Empty, Empty>("test.Two/First",
                                                            Handle));
    AddMethod(NewTypedMethod<RpcType::kUnary, Empty, Empty>("test.Two/Second",
                                                            Handle));
  }
};

TEST(MethodRegistryTest, FindsMethodsByTheHashOfTheirName) {
  TwoMethods service;
  MethodRegistry registry;
  ASSERT_EQ(registry.AddService(service, HandlerMode::kWorkerPool),
            absl::OkStatus());
  const auto* second = registry.Find(MethodHash("test.Two/Second"));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->method->full_name(), "test.Two/Second");
  EXPECT_EQ(second->index, 1);
  EXPECT_EQ(registry.Find(MethodHash("test.Two/Third")), nullptr);
}

TEST(MethodRegistryTest, AServiceOverridesTheServersMode) {
  TwoMethods service;
  service.set_handler_mode(HandlerMode::kInline);
  MethodRegistry registry;
  ASSERT_EQ(registry.AddService(service, HandlerMode::kWorkerPool),
            absl::OkStatus());
  EXPECT_EQ(registry.Find(MethodHash("test.Two/First"))->mode,
            HandlerMode::kInline);
}

TEST(MethodRegistryTest, TheServersModeHoldsForServicesThatDoNotSay) {
  TwoMethods service;
  MethodRegistry registry;
  ASSERT_EQ(registry.AddService(service, HandlerMode::kInline),
            absl::OkStatus());
  EXPECT_EQ(registry.Find(MethodHash("test.Two/First"))->mode,
            HandlerMode::kInline);
}

TEST(MethodRegistryTest, AGenericServiceHasTwoMethodsOfTheirOwnIndex) {
  TwoMethods service;
  GenericService generic;
  MethodRegistry registry;
  ASSERT_EQ(registry.AddService(service, HandlerMode::kInline),
            absl::OkStatus());
  EXPECT_EQ(registry.FindGeneric(/*streams=*/false), nullptr);
  EXPECT_EQ(registry.FindGeneric(/*streams=*/true), nullptr);
  registry.AddGeneric(generic, HandlerMode::kInline);
  const auto* unary = registry.FindGeneric(/*streams=*/false);
  ASSERT_NE(unary, nullptr);
  EXPECT_TRUE(unary->method->is_generic());
  EXPECT_FALSE(unary->method->streams());
  EXPECT_EQ(unary->mode, HandlerMode::kInline);
  EXPECT_EQ(unary->index, 2);
  const auto* stream = registry.FindGeneric(/*streams=*/true);
  ASSERT_NE(stream, nullptr);
  EXPECT_TRUE(stream->method->is_generic());
  EXPECT_TRUE(stream->method->streams());
  EXPECT_EQ(stream->mode, HandlerMode::kWorkerPool);
  EXPECT_EQ(stream->index, 3);
  EXPECT_EQ(registry.size(), 4);
}

TEST(MethodRegistryTest, RefusesAServiceTwice) {
  TwoMethods service;
  MethodRegistry registry;
  ASSERT_EQ(registry.AddService(service, HandlerMode::kWorkerPool),
            absl::OkStatus());
  const absl::Status status =
      registry.AddService(service, HandlerMode::kWorkerPool);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.Two/First"));
}

TEST(MethodRegistryTest, RefusesTwoMethodsOfOneHashAndNamesBoth) {
  const auto first =
      NewTypedMethod<RpcType::kUnary, Empty, Empty>("test.Two/First", Handle);
  const auto second =
      NewTypedMethod<RpcType::kUnary, Empty, Empty>("test.Two/Second", Handle);
  MethodRegistry registry;
  ASSERT_EQ(registry.AddMethod(7, first.get(), HandlerMode::kWorkerPool),
            absl::OkStatus());
  const absl::Status status =
      registry.AddMethod(7, second.get(), HandlerMode::kWorkerPool);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.Two/First"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("test.Two/Second"));
}

}  // namespace
}  // namespace verbena::internal
