#include "transport/soft/verbs/device_attributes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "transport/soft/base/limits.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// Does what the macro of this name in <infiniband/verbs.h> does.
int QueryPortOf(TestEnd& end, uint8_t number, ibv_port_attr& port) {
  return verbs_get_ctx(end.context)
      ->query_port(end.context, number, &port, sizeof(port));
}

TEST(DeviceAttributesTest, ThePortLooksLikeOneOfRoce) {
  TestEnd end;
  ibv_port_attr port;
  std::memset(&port, 0xff, sizeof(port));
  ASSERT_EQ(QueryPortOf(end, 1, port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(port.port_cap_flags2, 0);
  EXPECT_GE(port.gid_tbl_len, 1);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(QueryPortOf(end, kPorts, port), 0);
  EXPECT_EQ(QueryPortOf(end, kPorts + 1, port), EINVAL);
  EXPECT_EQ(QueryPortOf(end, 0, port), EINVAL);
}

}  // namespace
}  // namespace verbena::soft
