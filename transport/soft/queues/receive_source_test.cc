#include "transport/soft/queues/receive_source.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

class ReceiveSourceTest : public testing::Test {
 protected:
  static ibv_qp_init_attr Attributes() {
    ibv_qp_init_attr attributes = {};
    attributes.cap.max_recv_wr = 4;
    attributes.cap.max_recv_sge = 1;
    return attributes;
  }

  ReceiveSourceTest() {
    ibv_recv_wr request = {};
    request.wr_id = 7;
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(source_.own().Post(&request, &bad), 0);
  }

  bool Take() { return source_.Take(request_); }

  TestEnd end_;
  ReceiveSource source_{*ProtectionDomain::From(end_.pd), Attributes()};
  ReceiveRequest request_;
};

TEST_F(ReceiveSourceTest, GivesWhatIsPosted) {
  EXPECT_TRUE(Take());
  EXPECT_EQ(request_.wr_id, 7u);
  EXPECT_FALSE(Take());
}

TEST_F(ReceiveSourceTest, WithholdsAsOftenAsItIsTold) {
  source_.Withhold(2);
  EXPECT_FALSE(Take());
  EXPECT_FALSE(Take());
  EXPECT_TRUE(Take());
}

TEST_F(ReceiveSourceTest, WithholdsUntilItIsToldOtherwise) {
  source_.Withhold(UINT32_MAX);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Take());
  source_.Withhold(0);
  EXPECT_TRUE(Take());
}

TEST_F(ReceiveSourceTest, WhatIsWithheldIsStillThereToBeFlushed) {
  source_.Withhold(UINT32_MAX);
  EXPECT_TRUE(source_.own().Take(request_));
  EXPECT_EQ(request_.wr_id, 7u);
}

TEST_F(ReceiveSourceTest, AMissOfItsOwnDoesNotCount) {
  EXPECT_TRUE(Take());
  EXPECT_FALSE(Take());
  source_.Withhold(1);
  EXPECT_FALSE(Take());
  ibv_recv_wr request = {};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(source_.own().Post(&request, &bad), 0);
  EXPECT_TRUE(Take());
}

}  // namespace
}  // namespace verbena::soft
