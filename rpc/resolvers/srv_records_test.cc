#include "rpc/resolvers/srv_records.h"

#include <ares.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/dns_packet.h"

namespace verbena::internal {
namespace {

using testing_support::DnsName;
using testing_support::DnsReply;

const testing_support::DnsQuery kQuery = {
    .name = "_a._tcp.b", .type = testing_support::kDnsSrv, .packet = "ab"};

absl::Span<const uint8_t> Bytes(const std::string& packet) {
  return {reinterpret_cast<const uint8_t*>(packet.data()), packet.size()};
}

SrvRecords Read(const DnsReply& reply) {
  SrvRecords records;
  EXPECT_EQ(ReadSrvRecords(Bytes(reply.Bytes()), records), ARES_SUCCESS);
  return records;
}

TEST(SrvRecordsTest, HaveTheOrderOfTheAnswer) {
  const SrvRecords records =
      Read(DnsReply(kQuery).Srv(1, 5, 80, "z").Srv(1, 0, 81, "y.x"));
  EXPECT_EQ(records.records,
            (std::vector<SrvRecord>{{"z", 80, 5}, {"y.x", 81, 0}}));
}

TEST(SrvRecordsTest, AreThoseOfTheLowestPriority) {
  const SrvRecords records = Read(DnsReply(kQuery)
                                      .Srv(20, 1, 1, "far")
                                      .Srv(10, 1, 1, "near")
                                      .Srv(30, 1, 1, "farther"));
  EXPECT_EQ(records.records, (std::vector<SrvRecord>{{"near", 1, 1}}));
}

TEST(SrvRecordsTest, AreNoneIfTheServiceIsNotOffered) {
  EXPECT_TRUE(Read(DnsReply(kQuery).Srv(0, 0, 0, "")).records.empty());
}

TEST(SrvRecordsTest, HaveTheLeastTtl) {
  EXPECT_EQ(Read(DnsReply(kQuery)
                     .Srv(1, 1, 1, "a", /*ttl=*/70)
                     .Srv(2, 1, 1, "b", /*ttl=*/60)
                     .Srv(1, 1, 1, "c", /*ttl=*/80))
                .ttl,
            absl::Seconds(60));
}

TEST(SrvRecordsTest, TakeATtlThatIsTooLargeForZero) {
  EXPECT_EQ(Read(DnsReply(kQuery).Srv(1, 1, 1, "a", 0x7fffffff)).ttl,
            absl::Seconds(0x7fffffff));
  EXPECT_EQ(Read(DnsReply(kQuery).Srv(1, 1, 1, "a", 0x80000000)).ttl,
            absl::ZeroDuration());
}

TEST(SrvRecordsTest, AreNotThereIfTheAnswerHasOnlyOthers) {
  SrvRecords records;
  EXPECT_EQ(ReadSrvRecords(Bytes(DnsReply(kQuery).Bytes()), records),
            ARES_ENODATA);
  EXPECT_EQ(ReadSrvRecords(Bytes(DnsReply(kQuery).A(1).Bytes()), records),
            ARES_ENODATA);
}

TEST(SrvRecordsTest, AreRefusedIfThePacketIsCut) {
  const std::string whole =
      DnsReply(kQuery).Srv(1, 1, 1, "a.b").Srv(1, 1, 1, "c.d").Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    // In memory of its own, so that a sanitizer sees reads behind the end.
    const std::string cut = whole.substr(0, size);
    SrvRecords records;
    EXPECT_NE(ReadSrvRecords(Bytes(cut), records), ARES_SUCCESS) << size;
    EXPECT_EQ(LeastTtl(Bytes(cut)), absl::ZeroDuration()) << size;
  }
}

TEST(SrvRecordsTest, AreReadInBoundsWhateverAByteIs) {
  const std::string whole =
      DnsReply(kQuery).Srv(1, 1, 1, "a.b").Add(5, 9, DnsName("c")).Bytes();
  for (size_t place = 0; place < whole.size(); ++place) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[place] = static_cast<char>(value);
      SrvRecords records;
      ReadSrvRecords(Bytes(changed), records);
      EXPECT_GE(LeastTtl(Bytes(changed)), absl::ZeroDuration());
    }
  }
}

}  // namespace
}  // namespace verbena::internal
