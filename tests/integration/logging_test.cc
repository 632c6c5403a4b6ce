// What the library says of connections to who asks for it.

#include "rpc/logging.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

// Keeps what is logged while it lives.
class CapturedLog {
 public:
  CapturedLog() {
    SetLogSink(
        [this](const LogEntry& entry) {
          const base::MutexLock lock(mutex_);
          lines_.emplace_back(entry.text);
          changed_.NotifyAll();
        },
        LogSeverity::kInfo);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { SetLogSink(nullptr); }

  // Waits for a line that has all of these; false after two minutes.
  bool Await(const std::vector<std::string>& parts) {
    const absl::Time deadline = base::Now() + absl::Minutes(2);
    const base::MutexLock lock(mutex_);
    while (!Has(parts)) {
      if (base::Now() >= deadline) {
        ADD_FAILURE() << "no line with " << absl::StrJoin(parts, ", ")
                      << " in:\n"
                      << absl::StrJoin(lines_, "\n");
        return false;
      }
      changed_.WaitUntil(mutex_, deadline);
    }
    return true;
  }

 private:
  bool Has(const std::vector<std::string>& parts) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::string& line : lines_) {
      bool all = true;
      for (const std::string& part : parts) {
        all = all && absl::StrContains(line, part);
      }
      if (all) return true;
    }
    return false;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class LoggingTest : public EndToEndTest {};

TEST_F(LoggingTest, BothSidesTellOfAConnectionAndOfItsEnd) {
  CapturedLog log;
  StartServer();
  auto channel = NewChannel();
  ASSERT_EQ(EchoProblem(*EndToEnd::NewStub(channel), 10, 1), "");
  const std::string device = channel->device();
  EXPECT_TRUE(log.Await({"a client connects: ", ", on " + device}));
  EXPECT_TRUE(log.Await({"connected to ", ", on " + device}));
  channel.reset();
  EXPECT_TRUE(log.Await({"closed the connection"}));
}

TEST_F(LoggingTest, AnAttemptThatFailsSaysWhyAndWhenTheNextOneComes) {
  CapturedLog log;
  // Nobody listens at port 1.
  ChannelOptions options;
  options.device = "soft";
  const auto channel = CreateChannel("127.0.0.1:1", options);
  EXPECT_FALSE(channel->WaitForConnected(absl::Now() + absl::Seconds(1)));
  EXPECT_TRUE(
      log.Await({"no connection to 127.0.0.1:1", "not tried again for "}));
}

TEST_F(LoggingTest, AServerSaysThatItRefusesCallsForALimit) {
  CapturedLog log;
  StartServer([](ServerBuilder& builder) { builder.SetMaxConcurrentCalls(1); });
  const auto stub = EndToEnd::NewStub(NewChannel());
  const auto blocked = Block(stub.get(), "key");
  service().AwaitBlocked("key");
  EXPECT_NE(EchoProblem(*stub, 10, 1), "");
  EXPECT_TRUE(log.Await(
      {"calls are refused: ", "has 1 calls in work", "SetMaxConcurrentCalls"}));
  service().Release("key");
  blocked->thread.join();
}

}  // namespace
}  // namespace verbena::end_to_end
