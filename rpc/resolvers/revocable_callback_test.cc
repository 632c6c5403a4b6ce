#include "rpc/resolvers/revocable_callback.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "transport/base/gate.h"

namespace verbena::internal {
namespace {

TEST(RevocableCallbackTest, CallsUntilItIsRevoked) {
  int sum = 0;
  RevocableCallback<int> callback([&](int value) { sum += value; });
  callback.Call(1);
  callback.Call(2);
  EXPECT_FALSE(callback.revoked());
  callback.Revoke();
  EXPECT_TRUE(callback.revoked());
  callback.Call(4);
  EXPECT_EQ(sum, 3);
}

TEST(RevocableCallbackTest, DestroysTheFunctionWhenItIsRevoked) {
  const auto kept = std::make_shared<int>(0);
  RevocableCallback<int> callback([kept](int) {});
  callback.Revoke();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(RevocableCallbackTest, WaitsForTheFunctionThatRuns) {
  base::Gate entered;
  base::Gate leave;
  std::atomic<bool> left = false;
  RevocableCallback<int> callback([&](int) {
    entered.Open();
    leave.Wait();
    left = true;
  });
  std::thread caller([&] { callback.Call(0); });
  entered.Wait();
  std::thread opener([&] { leave.Open(); });
  callback.Revoke();
  EXPECT_TRUE(left);
  opener.join();
  caller.join();
}

}  // namespace
}  // namespace verbena::internal
