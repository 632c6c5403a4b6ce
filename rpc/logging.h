// What the library says of itself: one sink for the process.
//
//   verbena::SetLogSink(
//       [](const verbena::LogEntry& entry) {
//         my_logger.Write(absl::FormatTime(entry.time), entry.text);
//       },
//       verbena::LogSeverity::kInfo);
//
// Without a sink there are warnings only, on standard error. A flood is cut to
// a hundred entries a second, and says so. Calls log nothing: how one ended is
// in its status.

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
