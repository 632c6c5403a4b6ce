// The library's log entries: one sink for the process.
//
//   verbena::SetLogSink(
//       [](const verbena::LogEntry& entry) {
//         my_logger.Write(absl::FormatTime(entry.time), entry.text);
//       },
//       verbena::LogSeverity::kInfo);
//
// Without a sink, warnings go to standard error and other entries are dropped.
// At most a hundred entries a second are logged, and an entry says how many
// were dropped. Calls log nothing: their status says how they ended. Only
// calls that an authorization policy denies have entries.

#ifndef VERBENA_RPC_LOGGING_H_
#define VERBENA_RPC_LOGGING_H_

#include <utility>

#include "transport/base/log.h"

namespace verbena {

// Has entries of at least that severity go to `sink`, or to standard error if
// it is null; see LogSink for what it may do. When this returns, the sink that
// was there before is called no more. Thread-safe.
inline void SetLogSink(LogSink sink,
                       LogSeverity least = LogSeverity::kWarning) {
  base::Log::OfProcess().Set(std::move(sink), least);
}

}  // namespace verbena

#endif  // VERBENA_RPC_LOGGING_H_
