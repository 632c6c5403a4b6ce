#include "tools/certificates/pem_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::certificates {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

class PemFilesTest : public testing::Test {
 protected:
  PemFilesTest()
      : folder_(testing::TempDir() + "/pem_files." +
                testing::UnitTest::GetInstance()->current_test_info()->name()),
        path_(folder_ + "/a.key"),
        umask_(umask(022)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~PemFilesTest() override {
    umask(umask_);
    fs::remove_all(folder_);
  }

  absl::Status Write(const std::string& text, Existing existing,
                     mode_t mode = kKeyMode) {
    return WritePemFile(path_, text, mode, existing);
  }
  std::string Text() {
    const absl::StatusOr<PemFile> file = ReadPemFile(path_);
    return file.ok() ? file->text : file.status().ToString();
  }
  // The names in the folder, so that no test overlooks what is left behind.
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const fs::directory_entry& each : fs::directory_iterator(folder_)) {
      names.push_back(each.path().filename());
    }
    return names;
  }

  const std::string folder_;
  const std::string path_;
  const mode_t umask_;
};

TEST_F(PemFilesTest, WritesAndReadsAFile) {
  const std::string text(100000, 'x');
  ASSERT_EQ(Write(text, Existing::kKeep), absl::OkStatus());
  const absl::StatusOr<PemFile> file = ReadPemFile(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text, text);
  EXPECT_EQ(file->mode, 0600);
  EXPECT_EQ(file->owner, geteuid());
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

TEST_F(PemFilesTest, TheUmaskHolds) {
  ASSERT_EQ(Write("x", Existing::kKeep, kCertificateMode), absl::OkStatus());
  EXPECT_EQ(ReadPemFile(path_)->mode, 0644);
  umask(077);
  ASSERT_EQ(Write("x", Existing::kReplace, kCertificateMode), absl::OkStatus());
  EXPECT_EQ(ReadPemFile(path_)->mode, 0600);
}

TEST_F(PemFilesTest, KeepsAFileThatExists) {
  ASSERT_EQ(Write("old", Existing::kKeep), absl::OkStatus());
  const absl::Status status = Write("new", Existing::kKeep);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), path_ + " can't be written: File exists");
  EXPECT_EQ(Text(), "old");
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

// A key that was readable by all becomes private with the new text, not before
// or after it.
TEST_F(PemFilesTest, ReplacesAFileWithItsMode) {
  ASSERT_EQ(Write("old", Existing::kKeep, 0644), absl::OkStatus());
  ASSERT_EQ(Write("new", Existing::kReplace), absl::OkStatus());
  EXPECT_EQ(Text(), "new");
  EXPECT_EQ(ReadPemFile(path_)->mode, 0600);
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

TEST_F(PemFilesTest, DoesNotFollowALink) {
  fs::create_symlink(folder_ + "/far", path_);
  EXPECT_EQ(Write("x", Existing::kKeep).code(),
            absl::StatusCode::kAlreadyExists);
  ASSERT_EQ(Write("x", Existing::kReplace), absl::OkStatus());
  EXPECT_FALSE(fs::is_symlink(path_));
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

TEST_F(PemFilesTest, OnlyOneOfManyMakesAFile) {
  std::vector<int> made(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < made.size(); ++i) {
    threads.emplace_back([this, i, &made] {
      made[i] = Write(std::to_string(i), Existing::kKeep).ok() ? 1 : 0;
    });
  }
  for (std::thread& each : threads) each.join();
  int sum = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    sum += made[i];
    if (made[i] == 1) {
      EXPECT_EQ(Text(), std::to_string(i));
    }
  }
  EXPECT_EQ(sum, 1);
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

TEST_F(PemFilesTest, SaysWhyAFileCannotBeWritten) {
  const absl::Status missing =
      WritePemFile(folder_ + "/b/a.key", "x", kKeyMode, Existing::kKeep);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(),
            folder_ + "/b/a.key can't be written: No such file or directory");
  // A folder cannot be replaced by a file.
  fs::create_directory(path_);
  EXPECT_THAT(Write("x", Existing::kReplace).message(),
              HasSubstr("can't be written: Is a directory"));
  EXPECT_THAT(Names(), ElementsAre("a.key"));
}

TEST_F(PemFilesTest, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(ReadPemFile(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadPemFile(path_).status().message(),
            path_ + " can't be opened: No such file or directory");
  EXPECT_EQ(ReadPemFile(folder_).status().message(),
            folder_ + " is not a regular file");
  // A pipe that nobody writes to would never end.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(ReadPemFile(path_).status().message(),
            path_ + " is not a regular file");
  // A file that ends never is too long.
  fs::remove(path_);
  ASSERT_EQ(Write("", Existing::kKeep), absl::OkStatus());
  fs::resize_file(path_, (16 << 20) + 1);
  EXPECT_THAT(ReadPemFile(path_).status().message(),
              HasSubstr("has more than 16 MiB"));
}

}  // namespace
}  // namespace verbena::certificates
