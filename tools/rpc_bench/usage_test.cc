#include "tools/rpc_bench/usage.h"

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/options.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(UsageTest, NamesNoFlagThatIsUnknown) {
  int flags = 0;
  for (absl::string_view word :
       absl::StrSplit(Usage(), absl::ByAnyChar(" ,:;()\n"))) {
    if (!absl::ConsumePrefix(&word, "--")) continue;
    ++flags;
    const std::string flag =
        "--" + std::string(word.substr(0, word.find_first_of("=[")));
    const char* const arguments[] = {flag.c_str()};
    const auto options = ParseOptions(arguments);
    EXPECT_THAT(std::string(options.status().message()),
                Not(HasSubstr("unknown flag")));
  }
  EXPECT_GE(flags, 24);
}

}  // namespace
}  // namespace verbena::bench
