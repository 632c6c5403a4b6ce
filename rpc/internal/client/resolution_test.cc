// Which ways to a server come of an address, a device and a fabric. The machine
// may have RDMA or not: nothing here needs any.

#include "rpc/internal/client/resolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "rpc/internal/client/shared_pollers.h"
#include "transport/polling/task.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

class ResolutionTest : public testing::Test, private transport::Task {
 protected:
  ResolutionTest() : poller_(*pollers_.Join(absl::ZeroDuration())) {
    unsetenv("VERBENA_FABRIC");
  }
  ~ResolutionTest() override {
    unsetenv("VERBENA_FABRIC");
    pollers_.Leave(poller_);
  }

  Resolution::Result Find(const std::string& device, Fabric fabric) {
    device_ = device;
    fabric_ = fabric;
    result_.reset();
    poller_->PostFromOutside(this);
    while (!result_.has_value()) pollers_.Step();
    return *std::move(result_);
  }
  absl::Status Error(const std::string& device, Fabric fabric) {
    return Find(device, fabric).status();
  }

 private:
  void Run() override {
    Resolution::Start(
        poller_,
        [this] { return FindEndpoints({"127.0.0.1:9"}, device_, fabric_); },
        [this](Resolution::Result result) { result_ = std::move(result); });
  }

  SharedPollers pollers_{1, SharedPollers::Drive::kByStep};
  SharedPoller* const poller_;
  std::string device_;
  Fabric fabric_ = Fabric::kAny;
  std::optional<Resolution::Result> result_;
};

TEST_F(ResolutionTest, TcpAloneIsTheSoftwareDevice) {
  const Resolution::Result found = Find("", Fabric::kTcp);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().fabric(), "shm");
  EXPECT_FALSE(found->front().has_fallback);
  EXPECT_EQ(found->front().why, "TCP alone is asked for");
}

TEST_F(ResolutionTest, RdmaAloneHasNoOtherWay) {
  const Resolution::Result found = Find("", Fabric::kRdma);
  if (!found.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(found.status()));
    EXPECT_THAT(found.status().message(), HasSubstr("wants RDMA alone"));
    return;
  }
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().fabric(), "rdma");
  EXPECT_FALSE(found->front().has_fallback);
}

TEST_F(ResolutionTest, ADeviceOfTheOtherKindIsAContradiction) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Error("soft", Fabric::kRdma)));
  EXPECT_THAT(Error("soft", Fabric::kRdma).message(),
              HasSubstr("\"soft\" is asked for, but also only RDMA"));
  EXPECT_THAT(Error("mlx5_0", Fabric::kTcp).message(),
              HasSubstr("\"mlx5_0\" is asked for, but also only TCP"));
}

TEST_F(ResolutionTest, TheEnvironmentDecidesWhereTheOptionDoesNot) {
  setenv("VERBENA_FABRIC", "tcp", 1);
  EXPECT_EQ(Find("", Fabric::kAny)->front().why, "TCP alone is asked for");
  EXPECT_THAT(Error("soft", Fabric::kRdma).message(), HasSubstr("only RDMA"));
  setenv("VERBENA_FABRIC", "fast", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Error("", Fabric::kAny)));
  EXPECT_THAT(Error("", Fabric::kAny).message(),
              HasSubstr("VERBENA_FABRIC is \"fast\", but must be"));
  EXPECT_TRUE(Find("", Fabric::kTcp).ok());
}

}  // namespace
}  // namespace verbena::internal
