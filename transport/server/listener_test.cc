#include "transport/server/listener.h"

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <set>

#include "absl/time/time.h"
#include "transport/base/clock.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {
namespace {

// A connection manager with one channel, whose events a test makes.
struct FakeCm {
  rdma_event_channel channel = {};
  std::deque<rdma_cm_event> events;
  std::set<rdma_cm_id*> ids;
  int marked = 0;  // Ids that were given the class of kDscp.
  int binds = 0;
  int bind_error = 0;
};
FakeCm* fake = nullptr;

constexpr int kDscp = 46;

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() {
    fake = &fake_;
    fake_.channel.fd = eventfd(0, EFD_CLOEXEC);
    CmOps& cm = provider_.cm;
    cm.create_event_channel = [] { return &fake->channel; };
    cm.destroy_event_channel = [](rdma_event_channel* /*channel*/) {};
    cm.create_id = [](rdma_event_channel* /*channel*/, rdma_cm_id** id,
                      void* /*context*/, rdma_port_space /*space*/) {
      *id = new rdma_cm_id();
      fake->ids.insert(*id);
      return 0;
    };
    cm.destroy_id = [](rdma_cm_id* id) {
      fake->ids.erase(id);
      delete id;
      return 0;
    };
    cm.set_option = [](rdma_cm_id* /*id*/, int level, int option, void* value,
                       size_t length) {
      const bool marks = level == RDMA_OPTION_ID &&
                         option == RDMA_OPTION_ID_TOS && length == 1 &&
                         *static_cast<uint8_t*>(value) == kDscp * 4;
      fake->marked += marks ? 1 : 0;
      return 0;
    };
    cm.bind_addr = [](rdma_cm_id* /*id*/, sockaddr* /*address*/) {
      ++fake->binds;
      errno = fake->bind_error;
      return errno == 0 ? 0 : -1;
    };
    cm.listen = [](rdma_cm_id* /*id*/, int /*backlog*/) { return 0; };
    cm.get_src_port = [](rdma_cm_id* /*id*/) { return htons(7); };
    cm.get_cm_event = [](rdma_event_channel* /*channel*/,
                         rdma_cm_event** event) {
      errno = EAGAIN;
      if (fake->events.empty()) return -1;
      *event = &fake->events.front();
      return 0;
    };
    cm.ack_cm_event = [](rdma_cm_event* /*event*/) {
      fake->events.pop_front();
      return 0;
    };
    listener_ =
        *Listener::Create(provider_, "", kDscp, [](IncomingConnection) {});
    EXPECT_TRUE(listener_->Listen(address_, nullptr).ok());
  }
  ~ListenerTest() override {
    listener_.reset();
    EXPECT_TRUE(fake_.ids.empty());
    close(fake_.channel.fd);
    fake = nullptr;
  }

  void Remove(rdma_cm_id* id) {
    rdma_cm_event event = {};
    event.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
    event.id = id;
    fake_.events.push_back(event);
    listener_->OnReadable();
  }

  FakeCm fake_;
  Provider provider_ = {"fake", {}, {}};
  const base::SocketAddress address_ =
      *base::SocketAddress::ParseNumeric("10.0.0.7:0");
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, ListensAgainWhenItsDeviceIsBack) {
  EXPECT_EQ(listener_->NextTick(), absl::InfiniteFuture());
  Remove(*fake_.ids.begin());
  EXPECT_TRUE(fake_.ids.empty());
  fake_.bind_error = ENODEV;
  absl::Time now = listener_->NextTick();
  for (int i = 0; i < 3; ++i) {
    listener_->Tick(now);
    EXPECT_EQ(fake_.binds, 2 + i);
    EXPECT_TRUE(fake_.ids.empty());
    EXPECT_GT(listener_->NextTick(), now);
    EXPECT_LT(listener_->NextTick(), now + absl::Minutes(1));
    now = listener_->NextTick();
  }
  fake_.bind_error = 0;
  listener_->Tick(now);
  EXPECT_EQ(fake_.ids.size(), 1u);
  EXPECT_EQ(listener_->NextTick(), absl::InfiniteFuture());
  // Each id that listens has the class.
  EXPECT_EQ(fake_.marked, fake_.binds);
}

TEST_F(ListenerTest, LeavesItsOtherAddressesAlone) {
  ASSERT_TRUE(listener_->Listen(address_, nullptr).ok());
  Remove(*fake_.ids.begin());
  EXPECT_EQ(fake_.ids.size(), 1u);
  listener_->Tick(listener_->NextTick());
  EXPECT_EQ(fake_.ids.size(), 2u);
  EXPECT_EQ(fake_.binds, 3);
}

TEST_F(ListenerTest, TriesNothingOnceItHasStopped) {
  Remove(*fake_.ids.begin());
  listener_->StopListening();
  listener_->Tick(base::Now() + absl::Hours(1));
  EXPECT_EQ(fake_.binds, 1);
}

}  // namespace
}  // namespace verbena::transport
