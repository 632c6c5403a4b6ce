// Asynchronous events of the ports. Those of queue pairs are in
// tests/conformance.

#include "transport/soft/extended/address_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "transport/base/socket_address.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/port_events.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

// Takes the next event, which must be there, and acknowledges it.
ibv_async_event Next(TestEnd& end) {
  ibv_async_event event = {};
  EXPECT_EQ(fcntl(end.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(end.verbs.get_async_event(end.context, &event), 0);
  end.verbs.ack_async_event(&event);
  return event;
}

// Takes one event for each port.
void ExpectGidChange(TestEnd& end) {
  for (int port = 1; port <= kPorts; ++port) {
    const ibv_async_event event = Next(end);
    EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(event.element.port_num, port);
  }
}

bool HasNone(TestEnd& end) {
  EXPECT_EQ(fcntl(end.context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event;
  return end.verbs.get_async_event(end.context, &event) == -1;
}

TEST(AddressWatchTest, AnEventOfThePortReachesEveryContext) {
  TestEnd a;
  TestEnd b;
  SoftDevice::Get().port_events().Raise(IBV_EVENT_PORT_ERR, 1);
  for (TestEnd* end : {&a, &b}) {
    const ibv_async_event event = Next(*end);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
  }
}

TEST(AddressWatchTest, AnAddressThatComesOrGoesIsAGidChange) {
  TestEnd end;
  Engine engine;
  GidTable gids;
  PortEvents events;
  AddressWatch watch(engine, gids, events);
  EventQueue* const context_events =
      &Context::From(end.context)->async_events();
  events.Add(context_events);
  const HostAddress address = {base::SocketAddress::Loopback(AF_INET, 0), 1,
                               true};
  gids.Update({address});
  watch.CompareGids();
  ExpectGidChange(end);
  gids.Update({address});
  watch.CompareGids();
  EXPECT_TRUE(HasNone(end)) << "nothing has changed";
  gids.Update({});
  watch.CompareGids();
  ExpectGidChange(end);
  events.Remove(context_events);
}

}  // namespace
}  // namespace verbena::soft
