#include "transport/verbs/work_completion.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena::transport {
namespace {

TEST(WorkCompletionTest, HasWordsForEveryStatus) {
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_GENERAL_ERR; ++status) {
    const char* const text =
        WorkCompletionText(static_cast<ibv_wc_status>(status));
    ASSERT_NE(text, nullptr);
    EXPECT_NE(std::string(text), "");
  }
}

TEST(WorkCompletionTest, TellsTheUsualCauses) {
  EXPECT_EQ(std::string(WorkCompletionText(IBV_WC_RETRY_EXC_ERR)),
            "transport retry counter exceeded: the peer is gone or "
            "unreachable");
}

}  // namespace
}  // namespace verbena::transport
