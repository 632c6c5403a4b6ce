// Two ends of a connection that keep to the rules of frame.h, with random
// traffic and random delays: no rule is ever broken, no more is under way than
// receives are reserved for, and nothing ever waits for ever.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/session/credit_window.h"

namespace verbena::transport {
namespace {

struct Message {
  bool grant = false;
  uint32_t returned = 0;  // A RETURN of so many.
  uint32_t limit = 0;
  bool grant_read = false;
  bool wanted = false;
};

// Receives beyond those of idle connections, which ends share.
struct Pool {
  uint32_t left = 0;

  uint32_t Take(uint32_t wanted) {
    const uint32_t count = std::min(wanted, left);
    left -= count;
    return count;
  }
};

// The rules of Connection, without a device.
class End {
 public:
  explicit End(Pool& pool) : pool_(pool) {}

  void Queue(uint32_t frames) { queued_ += frames; }
  uint32_t queued() const { return queued_; }
  uint32_t handled() const { return handled_; }
  uint32_t window() const { return receive_.window(); }
  std::deque<Message>& out() { return out_; }

  // Sends what may be sent.
  void Pump() {
    while (queued_ > 0 && send_.available() > 0) {
      --queued_;
      send_.Take();
      Send({});
    }
    starved_ = starved_ || queued_ > 0;
    if (!receive_.GrantDue() || !grants_.may_send()) return;
    if (receive_.window() == kIdleCredits) Grow();
    grants_.Sent();
    Message grant;
    grant.grant = true;
    Send(grant);
  }

  // Gives back what is not used.
  void Balance() {
    pool_.left += receive_.ShrinkToOutstanding(kIdleCredits);
    if (queued_ > 0 || send_.available() <= kIdleCredits) return;
    Message message;
    message.returned = send_.available() - 1;
    send_.GiveBack(message.returned);
    send_.Take();
    Send(message);
  }

  void Receive(const Message& message) {
    if (message.grant) {
      ASSERT_TRUE(send_.IsNews(message.limit));
      ASSERT_TRUE(grants_.Receive());
    }
    ASSERT_TRUE(send_.Update(message.limit));
    ASSERT_TRUE(grants_.Acknowledge(message.grant_read));
    if (!message.grant) {
      ASSERT_TRUE(receive_.Receive());
      ++handled_;
    }
    if (message.wanted) Grow();
    if (message.returned > 0) {
      --handled_;
      ASSERT_TRUE(receive_.Return(message.returned));
      pool_.left += message.returned;
    }
  }

 private:
  void Send(Message message) {
    message.limit = receive_.Advertise();
    message.grant_read = grants_.Say();
    message.wanted = std::exchange(starved_, false);
    out_.push_back(message);
  }
  void Grow() {
    const uint32_t window = receive_.window();
    receive_.Grow(pool_.Take(std::min(window, kCredits - window)));
  }

  Pool& pool_;
  SendCredits send_{kIdleCredits, kCredits};
  ReceiveCredits receive_{kIdleCredits};
  GrantTurns grants_;
  bool starved_ = false;
  uint32_t queued_ = 0;
  uint32_t handled_ = 0;
  std::deque<Message> out_;  // Sent, not read by the other end.
};

class CreditSimulationTest : public testing::Test {
 protected:
  uint32_t Number(uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random_);
  }

  // Expects that the frames `from` has under way fit the receives that `to` has
  // reserved for it.
  static void ExpectReserved(End& from, const End& to) {
    uint32_t grants = 0;
    for (const Message& message : from.out()) grants += message.grant ? 1 : 0;
    ASSERT_LE(grants, kGrantReceives);
    ASSERT_LE(from.out().size() - grants, to.window());
  }

  // Delivers the oldest frames.
  void Deliver(End& from, End& to, uint32_t count) {
    for (; count > 0 && !from.out().empty(); --count) {
      const Message message = from.out().front();
      from.out().pop_front();
      to.Receive(message);
    }
  }

  void Run(uint32_t shared) {
    Pool pool{shared};
    End a(pool);
    End b(pool);
    uint32_t wanted_a = 0;
    uint32_t wanted_b = 0;
    for (int step = 0; step < 20000; ++step) {
      End& from = Number(0, 1) == 0 ? a : b;
      End& to = &from == &a ? b : a;
      switch (Number(0, 5)) {
        case 0: {
          const uint32_t frames = Number(0, 3) == 0 ? Number(0, 200) : 1;
          from.Queue(frames);
          (&from == &a ? wanted_a : wanted_b) += frames;
          break;
        }
        case 1:
          if (Number(0, 20) == 0) from.Balance();
          break;
        case 2:
          from.Pump();
          break;
        default:
          Deliver(from, to, Number(1, 5));
          to.Pump();
      }
      ASSERT_NO_FATAL_FAILURE(ExpectReserved(a, b));
      ASSERT_NO_FATAL_FAILURE(ExpectReserved(b, a));
      ASSERT_LE(pool.left, shared);
    }
    // Everything that was queued arrives.
    for (uint32_t round = 0; round < wanted_a + wanted_b + 10; ++round) {
      for (End* from : {&a, &b}) {
        from->Pump();
        Deliver(*from, from == &a ? b : a, UINT32_MAX);
      }
    }
    EXPECT_EQ(b.handled(), wanted_a);
    EXPECT_EQ(a.handled(), wanted_b);
    // And once nothing goes on any more, all that was shared comes back.
    for (int round = 0; round < 10; ++round) {
      for (End* from : {&a, &b}) {
        from->Balance();
        from->Pump();
        Deliver(*from, from == &a ? b : a, UINT32_MAX);
      }
    }
    EXPECT_EQ(a.window(), kIdleCredits);
    EXPECT_EQ(b.window(), kIdleCredits);
    EXPECT_EQ(pool.left, shared);
  }

  std::mt19937 random_{base::TestSeed()};
};

TEST_F(CreditSimulationTest, NeverBreaksARuleOrWaitsForEver) { Run(1000); }

TEST_F(CreditSimulationTest, GoesOnWithFewReceivesToShare) { Run(10); }

TEST_F(CreditSimulationTest, GoesOnWithNoReceivesToShare) { Run(0); }

}  // namespace
}  // namespace verbena::transport
