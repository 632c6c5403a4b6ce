#include "transport/soft/base/copy_bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace verbena::soft {
namespace {

// Copies `length` bytes between two offsets and checks every byte around.
void CheckCopy(size_t length, size_t from, size_t to) {
  std::string source(length + 128, '\0');
  std::iota(source.begin(), source.end(), '\1');
  std::string destination(length + 128, '?');
  CopyBytes(destination.data() + to, source.data() + from, length);
  std::string expected(length + 128, '?');
  expected.replace(to, length, source, from, length);
  EXPECT_EQ(destination, expected)
      << length << " bytes from " << from << " to " << to;
}

TEST(CopyBytesTest, CopiesEveryShortLengthAndNothingElse) {
  for (size_t length = 0; length <= 200; ++length) CheckCopy(length, 5, 9);
}

TEST(CopyBytesTest, CopiesLongLengthsHoweverTheSidesAreAligned) {
  for (const size_t length : {1000, 1024, 1025, 2047, 4096, 16384, 100000}) {
    CheckCopy(length, 0, 0);
    CheckCopy(length, 3, 16);
    CheckCopy(length, 64, 1);
  }
}

}  // namespace
}  // namespace verbena::soft
