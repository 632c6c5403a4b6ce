#include "transport/base/log.h"

#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"

namespace verbena::base {

Log& Log::OfProcess() {
  static Log* const log = new Log;
  return *log;
}

void Log::Set(LogSink sink, LogSeverity least) {
  const MutexLock lock(mutex_);
  // Under the lock of Write(), so the old sink gets nothing more. Swapped, so
  // that it is destroyed only after the lock is released.
  sink_.swap(sink);
  // Relaxed order is enough, because `least_` guards no other data: the mutex
  // guards the sink.
  least_.store(least, std::memory_order_relaxed);
}

// Counts entries by seconds of base::Now(), and passes on the first
// kMostASecond of each. The first entry after a gap is preceded by a note of
// the gap.
void Log::Write(LogSeverity severity, absl::string_view text) {
  // Checked before the lock, so that entries nobody wants cost no lock.
  if (!Wants(severity)) return;
  const MutexLock lock(mutex_);
  const absl::Time now = Now();
  if (now >= second_ends_) {
    second_ends_ = now + absl::Seconds(1);
    passed_ = 0;
  }
  if (passed_ == kMostASecond) {
    ++left_out_;
    return;
  }
  ++passed_;
  if (const int64_t left_out = std::exchange(left_out_, 0); left_out > 0) {
    const std::string note = absl::StrCat(
        left_out,
        " entries before this one were left out: the log takes at most ",
        kMostASecond, " a second");
    Pass({severity, ToWallClock(now), note});
  }
  Pass({severity, ToWallClock(now), text});
}

void Log::Pass(const LogEntry& entry) {
  if (sink_ != nullptr) return sink_(entry);
  std::cerr << absl::StrCat("verbena: ", entry.text, "\n");
}

}  // namespace verbena::base
