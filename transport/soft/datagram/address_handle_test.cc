#include "transport/soft/datagram/address_handle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/datagram/datagram_verbs.h"
#include "transport/soft/device/context.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

ibv_gid Gid(const char* text) {
  return GidOf(*base::SocketAddress::ParseNumeric(text));
}

// Makes an address handle with a good path that `change` has changed. Returns 0
// or the errno.
int CreateError(DatagramTestEnd& end,
                const std::function<void(ibv_ah_attr&)>& change) {
  ibv_ah_attr path = end.Path(end.gid.gid);
  change(path);
  errno = 0;
  ibv_ah* ah = CreateAh(end.pd, &path);
  if (ah == nullptr) return errno;
  EXPECT_EQ(DestroyAh(ah), 0);
  return 0;
}

TEST(AddressHandleTest, APathNeedsAGlobalRouteThroughAPort) {
  DatagramTestEnd end;
  EXPECT_EQ(CreateError(end, [](ibv_ah_attr&) {}), 0);
  EXPECT_EQ(CreateError(end, [](auto& path) { path.is_global = 0; }), EINVAL);
  EXPECT_EQ(CreateError(end, [](auto& path) { path.port_num = 2; }), 0);
  EXPECT_EQ(CreateError(end, [](auto& path) { path.port_num = 3; }), EINVAL);
  EXPECT_EQ(CreateError(end, [](auto& path) { path.sl = 15; }), 0);
  EXPECT_EQ(CreateError(end, [](auto& path) { path.sl = 16; }), EINVAL);
}

TEST(AddressHandleTest, TheSourceIsInTheTable) {
  DatagramTestEnd end;
  EXPECT_EQ(CreateError(end, [](auto& path) { path.grh.sgid_index = 255; }),
            EINVAL);
}

TEST(AddressHandleTest, TheDestinationIsAnAddressOfTheSameFamily) {
  DatagramTestEnd end;
  const auto to = [&](const ibv_gid& gid) {
    return CreateError(end, [&](auto& path) { path.grh.dgid = gid; });
  };
  // Entry 0 is an IPv4 address, on every machine that has one.
  EXPECT_EQ(to(Gid("10.1.2.3:0")), 0);
  EXPECT_EQ(to(Gid("239.1.2.3:0")), 0);
  EXPECT_EQ(to(Gid("[fd00::1]:0")), EINVAL);
  EXPECT_EQ(to(Gid("0.0.0.0:0")), EINVAL);
  EXPECT_EQ(to(ibv_gid{}), EINVAL);
}

TEST(AddressHandleTest, ThereAreAsManyAsTheDeviceSays) {
  DatagramTestEnd end;
  ibv_device_attr device;
  ASSERT_EQ(end.verbs.query_device(end.context, &device), 0);
  ibv_ah_attr path = end.Path(end.gid.gid);
  // As if all but one were there: it takes long to make them.
  std::atomic<int>& count = Context::From(end.context)->address_handles();
  count += device.max_ah - 1;
  ibv_ah* const last = CreateAh(end.pd, &path);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(CreateAh(end.pd, &path), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(DestroyAh(last), 0);
  count -= device.max_ah - 1;
  EXPECT_EQ(CreateError(end, [](ibv_ah_attr&) {}), 0);
}

TEST(AddressHandleTest, ItHoldsItsProtectionDomain) {
  DatagramTestEnd end;
  ibv_pd* pd = end.verbs.alloc_pd(end.context);
  ibv_ah_attr path = end.Path(end.gid.gid);
  ibv_ah* ah = CreateAh(pd, &path);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), EBUSY);
  EXPECT_EQ(DestroyAh(ah), 0);
  EXPECT_EQ(end.verbs.dealloc_pd(pd), 0);
}

TEST(AddressHandleTest, OwnAddressesAndLoopbackStayOnTheHost) {
  DatagramTestEnd end;
  EXPECT_TRUE(AddressHandle::From(end.Handle(end.gid.gid))->route().local());
  EXPECT_TRUE(
      AddressHandle::From(end.Handle(Gid("127.9.9.9:0")))->route().local());
  EXPECT_FALSE(
      AddressHandle::From(end.Handle(Gid("10.1.2.3:0")))->route().local());
}

}  // namespace
}  // namespace verbena::soft
