#include "tools/gateway/unary_methods.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace verbena::gateway {
namespace {

TEST(UnaryMethodsTest, KnowsWhatItWasTold) {
  UnaryMethods methods;
  EXPECT_FALSE(methods.Has("/a.B/C"));
  methods.Add("/a.B/C");
  methods.Add("/a.B/C");
  EXPECT_TRUE(methods.Has("/a.B/C"));
  EXPECT_FALSE(methods.Has("/a.B/D"));
  methods.Remove("/a.B/C");
  EXPECT_FALSE(methods.Has("/a.B/C"));
}

TEST(UnaryMethodsTest, HasABound) {
  UnaryMethods methods;
  for (size_t i = 0; i <= UnaryMethods::kMost; ++i) {
    methods.Add(absl::StrCat("/a.B/", i));
  }
  EXPECT_TRUE(methods.Has("/a.B/0"));
  EXPECT_FALSE(methods.Has(absl::StrCat("/a.B/", UnaryMethods::kMost)));
}

// The texts are copies. gateway_test.cc tests those of a real server.
TEST(UnaryMethodsTest, OnlyUnimplementedIsARefusal) {
  const char unary[] = "a.B/C does not stream by the server's .proto, and ...";
  const char streams[] = "a.B/C streams by the server's .proto, and ...";
  EXPECT_TRUE(UnaryMethods::IsUnaryAfterAll(absl::UnimplementedError(unary)));
  EXPECT_FALSE(
      UnaryMethods::IsUnaryAfterAll(absl::UnimplementedError(streams)));
  EXPECT_FALSE(UnaryMethods::IsUnaryAfterAll(absl::InternalError(unary)));
  EXPECT_TRUE(UnaryMethods::StreamsAfterAll(absl::UnimplementedError(streams)));
  EXPECT_FALSE(UnaryMethods::StreamsAfterAll(absl::UnimplementedError(unary)));
  EXPECT_FALSE(UnaryMethods::StreamsAfterAll(absl::UnimplementedError("no")));
}

}  // namespace
}  // namespace verbena::gateway
