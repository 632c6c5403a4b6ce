#include "rpc/credentials/certificate_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "tests/testing/test_tls.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena {
namespace {

using testing::HasSubstr;
using testing_support::MakeTestCertificates;
using testing_support::TestCertificates;

// Files that a provider reads, and what it says of them.
class FileWatcherTest : public testing::Test {
 protected:
  FileWatcherTest() { Write(first_); }

  // Another file in its place, as who renews certificates does it.
  void Write(const std::string& name, const std::string& text) const {
    const std::string path = Path(name);
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }
  void Write(const TestCertificates& made) const {
    Write("ca.pem", made.authority.certificate);
    Write("a.key", made.server.private_key);
    Write("a.pem", made.server.certificate_chain);
  }
  std::string Path(const std::string& name) const {
    return testing::TempDir() + "/" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
           name;
  }
  FileWatcherCertificateProvider::Options Options() {
    return {.root_cert_path = Path("ca.pem"),
            .identity_paths = {{.private_key = Path("a.key"),
                                .certificate_chain = Path("a.pem")}},
            .on_reload = [this](const absl::Status& status) {
              const base::MutexLock lock(mutex_);
              reloaded_ = status;
              changed_.NotifyAll();
            }};
  }
  // Waits until that is so after one of the reloads.
  bool AwaitReload(const std::function<bool()>& done) {
    const absl::Time deadline = base::Now() + absl::Minutes(2);
    const base::MutexLock lock(mutex_);
    while (!done() && changed_.WaitUntil(mutex_, deadline)) {
    }
    return done();
  }

  const TestCertificates first_ = MakeTestCertificates();
  base::Mutex mutex_;
  base::CondVar changed_;
  absl::Status reloaded_ ABSL_GUARDED_BY(mutex_) =
      absl::UnknownError("not reloaded");
};

TEST_F(FileWatcherTest, HasWhatIsInTheFiles) {
  const auto provider = FileWatcherCertificateProvider::Create(Options());
  ASSERT_TRUE(provider.ok()) << provider.status();
  const auto current = (*provider)->Current();
  EXPECT_EQ(current->root_certs, first_.authority.certificate);
  EXPECT_EQ(current->identity.front().private_key, first_.server.private_key);
  EXPECT_EQ((*provider)->Current(), current);
}

TEST_F(FileWatcherTest, TakesNewCertificatesWhenAllOfThemAreThere) {
  const auto provider = FileWatcherCertificateProvider::Create(Options());
  ASSERT_TRUE(provider.ok()) << provider.status();
  const TestCertificates next = MakeTestCertificates();
  Write(next);
  // New roots beside the old identity are good, too, and may be seen first.
  const auto is_next = [&] {
    const auto current = (*provider)->Current();
    return current->root_certs == next.authority.certificate &&
           current->identity.front().certificate_chain ==
               next.server.certificate_chain;
  };
  EXPECT_TRUE(AwaitReload(is_next));
}

TEST_F(FileWatcherTest, KeepsTheOldOnesWhileTheNewAreNotGood) {
  const auto provider = FileWatcherCertificateProvider::Create(Options());
  ASSERT_TRUE(provider.ok()) << provider.status();
  const auto before = (*provider)->Current();
  Write("a.key", first_.client.private_key);
  ASSERT_TRUE(AwaitReload([this] {
    mutex_.AssertHeld();
    return reloaded_.code() == absl::StatusCode::kInvalidArgument;
  }));
  EXPECT_EQ((*provider)->Current(), before);
  const base::MutexLock lock(mutex_);
  EXPECT_THAT(std::string(reloaded_.message()),
              testing::AllOf(HasSubstr("does not belong to its certificate"),
                             HasSubstr(Path("a.key"))));
}

TEST_F(FileWatcherTest, SaysWhichFileItCannotRead) {
  std::remove(Path("a.pem").c_str());
  EXPECT_THAT(
      std::string(
          FileWatcherCertificateProvider::Create(Options()).status().message()),
      HasSubstr("cannot read " + Path("a.pem") + ": No such file"));
  Write("a.pem", "no certificate");
  EXPECT_THAT(
      std::string(
          FileWatcherCertificateProvider::Create(Options()).status().message()),
      HasSubstr("the certificate of an identity cannot be read"));
}

}  // namespace
}  // namespace verbena
