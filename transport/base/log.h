// Where the library tells whoever runs it what no caller can hear.

#ifndef VERBENA_TRANSPORT_BASE_LOG_H_
#define VERBENA_TRANSPORT_BASE_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/mutex.h"

namespace verbena {

enum class LogSeverity : uint8_t {
  // A connection was made, refused or lost, and why; an attempt to connect has
  // failed, and when the next one comes.
  kInfo,
  // Somebody should look: a limit is reached, or the system refused something.
  kWarning,
};

// An event to report. The text is a line without its end.
struct LogEntry {
  LogSeverity severity;
  absl::Time time;         // Of the wall clock.
  absl::string_view text;  // Valid during the call.
};

// Gets entries, one at a time, on whichever thread they come up, mostly one
// that polls: it should take microseconds, and neither make calls nor set a
// sink.
using LogSink = std::function<void(const LogEntry&)>;

namespace base {

// Thread-safe.
class Log {
 public:
  // Returns the process's log, which is never destroyed.
  static Log& OfProcess();

  // For tests; the library has the one above.
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Has entries of at least that severity go to `sink`; null stands for
  // standard error. The last one gets nothing more when this returns.
  void Set(LogSink sink, LogSeverity least);

  // Whether an entry would go anywhere: saves making its text.
  bool Wants(LogSeverity severity) const {
    return severity >= least_.load(std::memory_order_relaxed);
  }

  // Passes an entry on if it is wanted. Of more than kMostASecond in a second
  // the others are left out, and the next one says how many. Not in the data
  // path: takes a lock, and does what the sink does.
  void Write(LogSeverity severity, absl::string_view text);

  static constexpr int kMostASecond = 100;

 private:
  void Pass(const LogEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<LogSeverity> least_{LogSeverity::kWarning};
  Mutex mutex_;
  LogSink sink_ ABSL_GUARDED_BY(mutex_);  // Null: standard error.
  // By base::Now(): when the second ends in which so many were passed on.
  absl::Time second_ends_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int passed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace base
}  // namespace verbena

#endif  // VERBENA_TRANSPORT_BASE_LOG_H_
