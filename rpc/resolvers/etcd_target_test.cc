#include "rpc/resolvers/etcd_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "rpc/internal/service/target.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<EtcdTarget> Parse(const std::string& text) {
  return ParseEtcdTarget(*ParseTarget(text));
}

std::string Fault(const EtcdOptions& options) {
  return std::string(CheckEtcdOptions(options).message());
}

TEST(EtcdTargetTest, HasThePrefixOfThePath) {
  const auto target = Parse("etcd:///services/orders");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->prefix, "services/orders");
  EXPECT_THAT(target->end_points, IsEmpty());
}

TEST(EtcdTargetTest, DropsTheSlashAtTheEnd) {
  EXPECT_EQ(Parse("etcd:///orders/")->prefix, "orders");
}

TEST(EtcdTargetTest, KeepsTheSlashThatBeginsAKey) {
  EXPECT_EQ(Parse("etcd:////orders")->prefix, "/orders");
}

TEST(EtcdTargetTest, HasTheEndPointsOfTheAuthority) {
  const auto target = Parse("etcd://a.example:1,10.0.0.2:2,[fd00::3]:3/orders");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->end_points,
              ElementsAre("a.example:1", "10.0.0.2:2", "[fd00::3]:3"));
}

TEST(EtcdTargetTest, RefusesTargetsThatCannotBeRight) {
  EXPECT_THAT(Parse("etcd:///").status().message(),
              HasSubstr("no prefix of keys"));
  EXPECT_THAT(Parse("etcd://a.example/orders").status().message(),
              HasSubstr("\"a.example\", which must be as 10.0.0.1:2379"));
  EXPECT_FALSE(Parse("etcd://a:1,,b:2/orders").ok());
  EXPECT_FALSE(Parse("etcd://a:65536/orders").ok());
}

TEST(EtcdOptionsTest, AreRightByDefault) {
  EXPECT_EQ(CheckEtcdOptions({}), absl::OkStatus());
}

TEST(EtcdOptionsTest, AreRefusedWithTheirBounds) {
  EXPECT_THAT(Fault({.end_points = {}}), HasSubstr("must have 1 to 100"));
  EXPECT_THAT(Fault({.end_points = {"a"}}), HasSubstr("10.0.0.1:2379"));
  EXPECT_EQ(Fault({.request_timeout = absl::Milliseconds(9)}),
            "EtcdOptions::request_timeout is 9ms; it must be between 10ms and "
            "1h");
  EXPECT_THAT(Fault({.check_interval = absl::ZeroDuration()}),
              HasSubstr("check_interval is 0"));
  EXPECT_THAT(Fault({.first_backoff = absl::ZeroDuration()}),
              HasSubstr("first_backoff is 0"));
  EXPECT_THAT(Fault({.max_backoff = absl::Milliseconds(1)}),
              HasSubstr("max_backoff is 1ms; it must be between 200ms"));
  EXPECT_THAT(
      Fault({.backoff_factor = std::numeric_limits<double>::quiet_NaN()}),
      HasSubstr("backoff_factor is nan"));
}

TEST(EtcdRangeEndTest, IsAfterAllKeysUnderThePrefix) {
  const std::string end = EtcdRangeEnd("orders");
  EXPECT_LT("orders/\xff\xff", end);
  EXPECT_LT(end, "orders1");
  EXPECT_LT(end, "orders2/a");
}

}  // namespace
}  // namespace verbena::internal
