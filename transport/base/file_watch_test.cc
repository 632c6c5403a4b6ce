#include "transport/base/file_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace verbena::base {
namespace {

using testing::HasSubstr;

constexpr size_t kMaxBytes = 100'000;

class ReadFileTest : public testing::Test {
 protected:
  ReadFileTest() : path_(testing::TempDir() + "/text_file") {
    std::remove(path_.c_str());
  }
  ~ReadFileTest() override { std::remove(path_.c_str()); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void ExpectError(const std::string& why) {
    const absl::Status status = ReadFile(path_, kMaxBytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("cannot read " + path_ + ": " + why));
  }

  const std::string path_;
};

TEST_F(ReadFileTest, IsReadWhole) {
  const std::string text(kMaxBytes, 'x');
  Write(text);
  EXPECT_EQ(*ReadFile(path_, kMaxBytes), text);
  Write("");
  EXPECT_EQ(*ReadFile(path_, kMaxBytes), "");
}

TEST_F(ReadFileTest, MustNotBeTooLong) {
  Write(std::string(kMaxBytes + 1, 'x'));
  ExpectError("it has more than 100000 bytes");
}

TEST_F(ReadFileTest, MustBeThere) { ExpectError("No such file or directory"); }

TEST_F(ReadFileTest, IsNoPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectError("not a regular file");
}

}  // namespace
}  // namespace verbena::base
