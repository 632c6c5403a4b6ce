#include "transport/soft/remote/port_role.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>

namespace verbena::soft {
namespace {

// No other test process uses this name.
std::string Port() { return "test/" + std::to_string(getpid()); }

TEST(PortRoleTest, OneHasItAndTheNextHearsOfItsEnd) {
  Engine engine;
  auto first = std::make_optional<PortRole>(engine, Port(), [] {});
  ASSERT_TRUE(first->Take());
  std::promise<void> free;
  PortRole next(engine, Port(), [&] { free.set_value(); });
  EXPECT_FALSE(next.Take());
  std::future<void> called = free.get_future();
  EXPECT_EQ(called.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  first.reset();
  ASSERT_EQ(called.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  EXPECT_TRUE(next.Take());
}

TEST(PortRoleTest, WhoStopsWaitingHearsNothing) {
  Engine engine;
  auto first = std::make_optional<PortRole>(engine, Port(), [] {});
  ASSERT_TRUE(first->Take());
  bool called = false;
  PortRole next(engine, Port(), [&] { called = true; });
  EXPECT_FALSE(next.Take());
  next.StopWaiting();
  first.reset();
  engine.RunAndCatchUp([] {}, std::chrono::seconds(10));
  EXPECT_FALSE(called);
}

TEST(PortRoleTest, RolesOfDifferentPortsAreDifferent) {
  Engine engine;
  PortRole tcp(engine, "tcp/" + Port(), [] {});
  PortRole udp(engine, "udp/" + Port(), [] {});
  EXPECT_TRUE(tcp.Take());
  EXPECT_TRUE(udp.Take());
}

}  // namespace
}  // namespace verbena::soft
