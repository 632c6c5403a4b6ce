// Tests of the extended verbs and attributes in a context of the device.

#include "transport/soft/extended/extended_attributes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/soft/base/clock.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TEST(ExtendedContextTest, LibibverbsFindsTheExtendedVerbs) {
  TestEnd end;
  ASSERT_NE(verbs_get_ctx(end.context), nullptr);
  EXPECT_NE(verbs_get_ctx_op(end.context, query_device_ex), nullptr);
}

TEST(ExtendedContextTest, VerbsThatAreNotThereAreRefusedAndNotCalled) {
  TestEnd end;
  errno = 0;
  ibv_xrcd_init_attr xrc = {};
  EXPECT_EQ(ibv_open_xrcd(end.context, &xrc), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_counters_init_attr counters = {};
  EXPECT_EQ(ibv_create_counters(end.context, &counters), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_flow_attr flow = {};
  EXPECT_EQ(ibv_create_flow(end.qp, &flow), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_wq_init_attr wq = {};
  EXPECT_EQ(ibv_create_wq(end.context, &wq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  ibv_qp_open_attr open = {};
  EXPECT_EQ(ibv_open_qp(end.context, &open), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_modify_cq_attr moderation = {};
  EXPECT_EQ(ibv_modify_cq(end.cq, &moderation), EOPNOTSUPP);
  ibv_qp_rate_limit_attr rate = {};
  EXPECT_EQ(ibv_modify_qp_rate_limit(end.qp, &rate), EOPNOTSUPP);
}

TEST(ExtendedAttributesTest, ExtendedAttributesBeginWithTheOrdinaryOnes) {
  TestEnd end;
  ibv_device_attr ordinary;
  ASSERT_EQ(end.verbs.query_device(end.context, &ordinary), 0);
  ibv_device_attr_ex extended;
  std::memset(&extended, 0xff, sizeof(extended));
  ASSERT_EQ(ibv_query_device_ex(end.context, nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &ordinary,
                        offsetof(ibv_device_attr, phys_port_cnt)),
            0);
  EXPECT_EQ(extended.comp_mask, 0u);
  EXPECT_EQ(extended.phys_port_cnt_ex, ordinary.phys_port_cnt);
  EXPECT_EQ(ordinary.phys_port_cnt, kPorts);
  EXPECT_EQ(extended.device_cap_flags_ex, ordinary.device_cap_flags);
  // Features of Ethernet adapters, which this device does not have.
  EXPECT_EQ(extended.tso_caps.max_tso, 0u);
  EXPECT_EQ(extended.rss_caps.supported_qpts, 0u);
  EXPECT_EQ(extended.raw_packet_caps, 0u);
  EXPECT_EQ(extended.tm_caps.max_num_tags, 0u);
  EXPECT_EQ(extended.xrc_odp_caps, 0u);
}

TEST(ExtendedAttributesTest, ACallerOfAnOlderVersionGetsWhatItHasRoomFor) {
  TestEnd end;
  ibv_device_attr_ex attributes;
  std::memset(&attributes, 0xff, sizeof(attributes));
  constexpr size_t kOld = offsetof(ibv_device_attr_ex, odp_caps);
  ASSERT_EQ(QueryWholeDevice(end.context, nullptr, &attributes, kOld), 0);
  EXPECT_EQ(attributes.comp_mask, 0u);
  EXPECT_EQ(attributes.odp_caps.general_caps, UINT64_MAX) << "not its own";
  const ibv_query_device_ex_input unknown = {.comp_mask = 1};
  EXPECT_EQ(ibv_query_device_ex(end.context, &unknown, &attributes), EINVAL);
}

TEST(ExtendedAttributesTest, TheRawClockRunsAtTheRateThatIsTold) {
  TestEnd end;
  ibv_device_attr_ex attributes;
  ASSERT_EQ(ibv_query_device_ex(end.context, nullptr, &attributes), 0);
  EXPECT_EQ(attributes.hca_core_clock, 1'000'000u) << "kHz: nanoseconds";
  EXPECT_EQ(attributes.completion_timestamp_mask, UINT64_MAX);
  const uint64_t before = ClockNow();
  ibv_values_ex values = {};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(end.context, &values), 0);
  EXPECT_EQ(values.comp_mask, uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
  EXPECT_GE(static_cast<uint64_t>(values.raw_clock.tv_nsec), before);
  EXPECT_LE(static_cast<uint64_t>(values.raw_clock.tv_nsec), ClockNow());
  values.comp_mask = 1u << 31;
  ASSERT_EQ(ibv_query_rt_values_ex(end.context, &values), 0);
  EXPECT_EQ(values.comp_mask, 0u) << "an unknown value is not answered";
}

}  // namespace
}  // namespace verbena::soft
