#include "rpc/internal/service/file_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/service/target.h"
#include "transport/base/mutex.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

TEST(ServerFileTest, HasAddressesOrObjects) {
  const auto resolved = ParseServerFile(R"({"servers": ["10.0.0.1:1",
      {"address": "b:2", "weight": 3, "attributes": {"release": "41"},
       "locality": {"region": "eu", "zone": "a", "subZone": "r7"}}],
      "serviceConfig": {"loadBalancingConfig": [{"round_robin": {}}]}})");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ASSERT_EQ(resolved->servers.size(), 2);
  EXPECT_EQ(resolved->servers[0], ServerAddress{.address = "10.0.0.1:1"});
  EXPECT_EQ(resolved->servers[1],
            (ServerAddress{.address = "b:2",
                           .weight = 3,
                           .locality = {"eu", "a", "r7"},
                           .attributes = {{"release", "41"}}}));
  EXPECT_EQ(resolved->service_config,
            R"({"loadBalancingConfig":[{"round_robin":{}}]})");
}

TEST(ServerFileTest, SaysWhereItIsWrong) {
  const auto error = [](const char* text) {
    const absl::Status status = ParseServerFile(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(error("{}"), HasSubstr("\"servers\""));
  EXPECT_THAT(error(R"({"servers": "a:1"})"), HasSubstr("servers is \"a:1\""));
  EXPECT_THAT(error(R"({"servers": [1]})"), HasSubstr("servers[0]"));
  EXPECT_THAT(error(R"({"servers": [{"weight": 1}]})"),
              HasSubstr("servers[0]"));
  EXPECT_THAT(error(R"({"servers": [{"address": "a:1", "weight": 0}]})"),
              HasSubstr("servers[0].weight is 0"));
  EXPECT_THAT(error(R"({"servers": [{"address": "a:1",
                                     "attributes": {"x": 1}}]})"),
              HasSubstr("servers[0].attributes.x is 1"));
}

// Follows a file, and waits for answers.
class FileResolverTest : public testing::Test {
 protected:
  FileResolverTest() : path_(testing::TempDir() + "/servers.json") {
    std::remove(path_.c_str());
  }

  std::unique_ptr<Resolver> Follow() {
    auto resolver = FileResolvers().Create(
        *ParseTarget("file://" + path_),
        [this](absl::StatusOr<Resolved> result) { Keep(std::move(result)); });
    EXPECT_TRUE(resolver.ok()) << resolver.status();
    return *std::move(resolver);
  }

  // Waits for the answer that has `address` first; or for an error, if that is
  // empty. Returns the error's text.
  std::string Await(const std::string& address) {
    const base::MutexLock lock(mutex_);
    for (;;) {
      if (last_.has_value()) {
        if (!last_->ok() && address.empty()) {
          return std::string(last_->status().message());
        }
        if (last_->ok() && !(*last_)->servers.empty() &&
            (*last_)->servers[0].address == address) {
          return "";
        }
      }
      changed_.Wait(mutex_);
    }
  }

  void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string ListOf(const char* address) {
    return absl::StrCat(R"({"servers": [")", address, R"("]})");
  }

  const std::string path_;

 private:
  void Keep(absl::StatusOr<Resolved> result) {
    const base::MutexLock lock(mutex_);
    last_ = std::move(result);
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<absl::StatusOr<Resolved>> last_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FileResolverTest, ReadsTheFileAgainWhenItIsWritten) {
  Write(path_, ListOf("a:1"));
  const auto resolver = Follow();
  Await("a:1");
  Write(path_, ListOf("b:1"));
  Await("b:1");
}

TEST_F(FileResolverTest, SeesAFileThatTakesTheOldOnesPlace) {
  Write(path_, ListOf("a:1"));
  const auto resolver = Follow();
  Await("a:1");
  Write(path_ + ".new", ListOf("b:1"));
  ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  Await("b:1");
}

TEST_F(FileResolverTest, WaitsForAFileThatIsNotThere) {
  const auto resolver = Follow();
  EXPECT_THAT(Await(""), HasSubstr(path_));
  Write(path_, ListOf("a:1"));
  Await("a:1");
}

TEST_F(FileResolverTest, TellsOfAFileThatIsWrong) {
  Write(path_, ListOf("a:1"));
  const auto resolver = Follow();
  Await("a:1");
  Write(path_, R"({"servers": [{"address": "a:1", "weight": "heavy"}]})");
  EXPECT_THAT(Await(""), HasSubstr("servers[0].weight is \"heavy\""));
  Write(path_, ListOf("b:1"));
  Await("b:1");
}

TEST_F(FileResolverTest, ReadsNothingButFiles) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  {
    const auto resolver = Follow();
    EXPECT_THAT(Await(""), HasSubstr("not a regular file"));
  }
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const auto resolver = Follow();
  EXPECT_THAT(Await(""), HasSubstr("not a regular file"));
}

TEST_F(FileResolverTest, RefusesTargetsThatNameNoFile) {
  for (const char* text : {"file:", "file:///", "file://host/etc/x"}) {
    EXPECT_EQ(FileResolvers()
                  .Create(*ParseTarget(text), [](const auto&) {})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(
      FileResolvers()
          .Create(*ParseTarget("file:///no/such/folder/x"), [](const auto&) {})
          .status()
          .code(),
      absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace verbena::internal
