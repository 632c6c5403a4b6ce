#include "rpc/resolvers/etcd_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string Fault(const std::string& text) {
  return std::string(ParseEtcdValue(text).status().message());
}

TEST(EtcdValueTest, NeedsAnAddressOnly) {
  const auto server = ParseEtcdValue(R"({"address": "10.0.0.1:7"})");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(*server, ServerAddress{.address = "10.0.0.1:7"});
}

TEST(EtcdValueTest, HasAllOfAServer) {
  const auto server = ParseEtcdValue(
      R"({"address": "a.example:7", "weight": 3, "version": "41",
          "locality": {"region": "eu", "zone": "a", "sub_zone": "r7"},
          "metadata": {"release": "blue", "cores": 8}, "unknown": [1]})");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(server->address, "a.example:7");
  EXPECT_EQ(server->weight, 3u);
  EXPECT_EQ(server->locality, (Locality{"eu", "a", "r7"}));
  EXPECT_THAT(server->attributes,
              ElementsAre(Pair("cores", "8"), Pair("release", "blue"),
                          Pair("version", "41")));
}

TEST(EtcdValueTest, TakesTheNameOfASubZoneInFiles) {
  const auto server =
      ParseEtcdValue(R"({"address": "a:7", "locality": {"subZone": "r7"}})");
  EXPECT_EQ(server->locality.sub_zone, "r7");
}

TEST(EtcdValueTest, TakesTheFormOfEtcdsOwnClients) {
  auto server = ParseEtcdValue(R"({"Op":0,"Addr":"a:7","Metadata":null})");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(*server, ServerAddress{.address = "a:7"});
  server = ParseEtcdValue(R"({"Op":0,"Addr":"a:7","Metadata":"blue"})");
  EXPECT_THAT(server->attributes, ElementsAre(Pair("Metadata", "blue")));
  server = ParseEtcdValue(R"({"Addr":"a:7","Metadata":{"release":"blue"}})");
  EXPECT_THAT(server->attributes, ElementsAre(Pair("release", "blue")));
}

TEST(EtcdValueTest, NamesWhatIsWrong) {
  EXPECT_THAT(Fault("10.0.0.1:7"), HasSubstr("not JSON"));
  EXPECT_THAT(Fault(""), HasSubstr("not JSON"));
  EXPECT_THAT(Fault("[]"), HasSubstr("must be an object"));
  EXPECT_EQ(Fault("{}"), "it has no \"address\"");
  EXPECT_EQ(Fault(R"({"address": "a"})"),
            "address is \"a\", but must be as \"10.0.0.1:7471\"");
  EXPECT_THAT(Fault(R"({"address": "a:7", "weight": 0})"),
              HasSubstr("weight is 0, but must be an integer from 1"));
  EXPECT_THAT(Fault(R"({"address": "a:7", "locality": {"zone": 1}})"),
              HasSubstr("locality.zone is 1"));
  EXPECT_THAT(Fault(R"({"address": "a:7", "metadata": 1})"),
              HasSubstr("metadata is 1, but must be an object"));
  EXPECT_THAT(Fault(R"({"Op": 1, "Addr": "a:7"})"), HasSubstr("Op is 1"));
}

TEST(EtcdValueTest, ReadsWhatItWrites) {
  const ServerAddress server = {
      .address = "[fd00::1]:7",
      .weight = UINT32_MAX,
      .locality = {.region = "eu", .zone = "\"a\"", .sub_zone = "r\n7"},
      .attributes = {{"version", "41"}, {"release", "blue"}, {"empty", ""}}};
  const auto text = MakeEtcdValue(server);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr(R"("version":"41")"));
  const auto read = ParseEtcdValue(*text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, server);
}

TEST(EtcdValueTest, RefusesToWriteWhatItCouldNotRead) {
  EXPECT_FALSE(MakeEtcdValue({.address = "no-port"}).ok());
  EXPECT_FALSE(MakeEtcdValue({.address = "a:7", .weight = 0}).ok());
  EXPECT_FALSE(
      MakeEtcdValue({.address = "a:7", .attributes = {{"release", "\xff"}}})
          .ok());
}

}  // namespace
}  // namespace verbena::internal
