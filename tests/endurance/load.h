// Calls of all kinds and sizes, drawn from a seed.

#ifndef VERBENA_TESTS_ENDURANCE_LOAD_H_
#define VERBENA_TESTS_ENDURANCE_LOAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/endurance/figures.h"
#include "transport/base/mutex.h"

namespace verbena::endurance {

// Counts calls by the code of their status. Thread-safe.
class Tally {
 public:
  void Count(absl::StatusCode code, absl::Duration overrun);

  // Waits until `more` more calls have succeeded. Returns false if they have
  // not by `deadline`.
  bool AwaitSuccesses(int64_t more, absl::Time deadline);

  // Number of calls by the name of their code, and "overrun_us": the longest
  // time by which a call has outlived its deadline.
  Figures figures() const;

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Figures calls_ ABSL_GUARDED_BY(mutex_);
  absl::Duration overrun_ ABSL_GUARDED_BY(mutex_);
};

// Callers that call the services of tests/integration without a pause, from the
// constructor to the destructor: blocking ones, each on a thread, and such that
// start each call in the callback of the one before. Each call has a deadline;
// some are cancelled by other callers. Messages and attachments have 64 bytes
// to 1 MiB; what comes back is checked. Channels are replaced now and then.
//
// A reply that is wrong, or a status that no dying peer accounts for, ends the
// process: it says so and exits with status 3.
class Load {
 public:
  // `tally` outlives it.
  Load(std::string target, uint64_t seed, Tally* tally);
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  // Waits for the calls that are under way, and drops the channels.
  ~Load();

  // By how much the deadline of an open call has passed; zero or less if none
  // has.
  absl::Duration OpenOverrun() const;

 private:
  struct Call;
  class Caller;

  static constexpr int kBlockingCallers = 2;
  static constexpr int kCallbackCallers = 4;
  static constexpr size_t kChannels = 2;

  void CallerEnded();
  std::shared_ptr<Channel> ChannelAt(size_t index) const;
  void ReplaceChannel(size_t index);

  const std::string target_;
  Tally& tally_;
  const std::string bytes_;  // Source of payloads and attachments.
  std::atomic<bool> stopping_{false};

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::shared_ptr<Channel>> channels_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = kBlockingCallers + kCallbackCallers;

  std::vector<std::unique_ptr<Caller>> callers_;  // Constant once they run.
  std::vector<std::thread> threads_;
};

}  // namespace verbena::endurance

#endif  // VERBENA_TESTS_ENDURANCE_LOAD_H_
