#include "rpc/services/admin/log_tail.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace verbena {

LogSink LogTail::Sink(LogSink next) {
  // The sink keeps this: nobody can tell when the process calls it for the last
  // time.
  return [self = shared_from_this(),
          next = std::move(next)](const LogEntry& entry) {
    // Keep() has released the mutex before `next`, which is the user's code.
    self->Keep(entry);
    if (next != nullptr) {
      next(entry);
    } else if (entry.severity >= LogSeverity::kWarning) {
      std::cerr << absl::StrCat("verbena: ", entry.text, "\n");
    }
  };
}

std::vector<LogTail::Line> LogTail::lines() const {
  const base::MutexLock lock(mutex_);
  return {lines_.begin(), lines_.end()};
}

void LogTail::Keep(const LogEntry& entry) {
  const base::MutexLock lock(mutex_);
  if (lines_.size() == kMost) lines_.pop_front();
  lines_.push_back({entry.severity, entry.time, std::string(entry.text)});
}

}  // namespace verbena
