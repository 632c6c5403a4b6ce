// Many queue pairs on one completion queue, most of them silent.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr int kSpokes = 20;

// An end whose completion queue serves many queue pairs (the hub), and the
// peers of these (the spokes).
class ParkingTest : public testing::Test {
 protected:
  static TestEndOptions HubOptions(bool with_channel) {
    TestEndOptions options;
    options.shared_receives = 512;
    options.completions = 1024;
    options.with_channel = with_channel;
    return options;
  }

  explicit ParkingTest(bool with_channel = false)
      : hub_(HubOptions(with_channel)) {
    own_ = hub_.qp;
    for (int i = 0; i < kSpokes; ++i) {
      spokes_.push_back(std::make_unique<TestEnd>());
      ibv_qp_init_attr attributes = {};
      attributes.send_cq = attributes.recv_cq = hub_.cq;
      attributes.srq = hub_.srq;
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap.max_send_wr = 16;
      attributes.cap.max_send_sge = 1;
      attributes.cap.max_inline_data = 64;
      hub_.qp = hub_.verbs.create_qp(hub_.pd, &attributes);
      qps_.push_back(hub_.qp);
      ConnectManually(hub_, *spokes_.back());
    }
    for (int i = 0; i < 512; ++i) EXPECT_EQ(hub_.Receive(i, 0, 64), 0);
  }

  ~ParkingTest() override {
    for (ibv_qp* qp : qps_) hub_.verbs.destroy_qp(qp);
    hub_.qp = own_;
  }

  bool AllParked() const {
    for (ibv_qp* qp : qps_) {
      if (!IsParked(qp)) return false;
    }
    return true;
  }

  static bool IsParked(ibv_qp* qp) {
    return QueuePair::From(qp)->parking().parked;
  }

  // Polls until `is_so`; no completion is to come meanwhile.
  template <typename Condition>
  void PollUntil(const Condition& is_so) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_so() && std::chrono::steady_clock::now() < deadline) {
      ibv_wc completion;
      ASSERT_FALSE(hub_.PollOnce(completion));
    }
    ASSERT_TRUE(is_so());
  }
  void PollUntilParked() {
    PollUntil([this] { return AllParked(); });
  }

  TestEnd hub_;
  ibv_qp* own_ = nullptr;
  std::vector<ibv_qp*> qps_;
  std::vector<std::unique_ptr<TestEnd>> spokes_;
};

TEST_F(ParkingTest, AParkedQueuePairStillReceives) {
  PollUntilParked();
  for (int i = 0; i < kSpokes; ++i) {
    EXPECT_EQ(spokes_[i]->Send(1, 0, 8), 0);
    const ibv_wc received = hub_.Wait();
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.qp_num, qps_[i]->qp_num);
    EXPECT_EQ(spokes_[i]->Wait(&hub_).status, IBV_WC_SUCCESS);
  }
}

TEST_F(ParkingTest, AParkedQueuePairStillSends) {
  PollUntilParked();
  for (int i = 0; i < kSpokes; ++i) {
    EXPECT_EQ(spokes_[i]->Receive(7, 0, 64), 0);
    hub_.qp = qps_[i];
    EXPECT_EQ(hub_.Send(3, 0, 8), 0);
    EXPECT_EQ(spokes_[i]->Wait().opcode, IBV_WC_RECV);
    const ibv_wc sent = hub_.Wait(spokes_[i].get());
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.wr_id, 3u);
  }
}

TEST_F(ParkingTest, AQueuePairThatIsUsedAgainIsPolledAgain) {
  PollUntilParked();
  EXPECT_EQ(spokes_[4]->Send(1, 0, 8), 0);
  EXPECT_EQ(hub_.Wait().opcode, IBV_WC_RECV);
  // Not at once: the device's thread, which took the message, may be at it.
  PollUntil([this] { return !IsParked(qps_[4]); });
  PollUntilParked();
}

TEST_F(ParkingTest, AParkedQueuePairCanBeDestroyed) {
  PollUntilParked();
  EXPECT_EQ(spokes_.back()->Send(1, 0, 8), 0);
  hub_.verbs.destroy_qp(qps_.back());
  qps_.pop_back();
  hub_.RunProtocol();
}

// Messages that come just as their queue pair is being parked, or returns.
TEST_F(ParkingTest, NoMessageIsLostWhileQueuePairsComeAndGo) {
  constexpr int kRounds = 5;
  std::atomic<int> round{0};
  std::thread senders([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (round.load() < i) std::this_thread::yield();
      for (int spoke = 0; spoke < kSpokes; ++spoke) {
        EXPECT_EQ(spokes_[spoke]->Send(1, 0, 8), 0);
        EXPECT_EQ(spokes_[spoke]->Wait().status, IBV_WC_SUCCESS);
      }
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    for (int message = 0; message < kSpokes; ++message) {
      EXPECT_EQ(hub_.Wait().opcode, IBV_WC_RECV);
    }
    if (i % 2 == 0) PollUntilParked();
    round.store(i + 1);
  }
  senders.join();
}

class SleepingHubTest : public ParkingTest {
 protected:
  SleepingHubTest() : ParkingTest(/*with_channel=*/true) {}

  // Arms until all are parked.
  void SleepUntilParked() {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!AllParked() && std::chrono::steady_clock::now() < deadline) {
      ASSERT_EQ(ibv_req_notify_cq(hub_.cq, 0), 0);
    }
    ASSERT_TRUE(AllParked());
  }
};

TEST_F(SleepingHubTest, ASleeperIsWokenForAParkedQueuePair) {
  for (const unsigned int flags : {0u, unsigned{IBV_SEND_SIGNALED}}) {
    SleepUntilParked();
    EXPECT_EQ(spokes_[3]->Send(1, 0, 8, flags), 0);
    hub_.TakeCompletionEvent();
    EXPECT_EQ(hub_.Wait().qp_num, qps_[3]->qp_num);
    PollUntil([this] { return !IsParked(qps_[3]); });
    EXPECT_TRUE(IsParked(qps_[4]));
  }
}

}  // namespace
}  // namespace verbena::soft
