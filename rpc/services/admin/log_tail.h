// The last things that the library has said of itself, for the status page.
//
//   auto log = std::make_shared<verbena::LogTail>();
//   verbena::SetLogSink(log->Sink(my_sink), verbena::LogSeverity::kInfo);
//   options.log = log;  // Of AddAdminPage().

#ifndef VERBENA_RPC_SERVICES_ADMIN_LOG_TAIL_H_
#define VERBENA_RPC_SERVICES_ADMIN_LOG_TAIL_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "rpc/logging.h"
#include "transport/base/mutex.h"

namespace verbena {

// Keeps the last entries that it was given. Thread-safe. To be owned by
// std::shared_ptr, because the process has its sink for longer than anybody
// says.
class LogTail : public std::enable_shared_from_this<LogTail> {
 public:
  static constexpr size_t kMost = 100;

  // An entry of the log.
  struct Line {
    LogSeverity severity;
    absl::Time time;
    std::string text;
  };

  // Returns a sink that keeps entries here and passes them on to `next`. If
  // `next` is null, warnings go to standard error.
  LogSink Sink(LogSink next = nullptr);

  // The oldest first.
  std::vector<Line> lines() const;

 private:
  void Keep(const LogEntry& entry);

  mutable base::Mutex mutex_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVICES_ADMIN_LOG_TAIL_H_
