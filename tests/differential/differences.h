// The list of what Verbena does otherwise than gRPC C++ 1.51, on purpose.
// docs/coming-from-grpc.md has it for users.

#ifndef VERBENA_TESTS_DIFFERENTIAL_DIFFERENCES_H_
#define VERBENA_TESTS_DIFFERENTIAL_DIFFERENCES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tests/differential/schedule.h"

namespace verbena::differential {

// A schedule whose outcomes differ. DrawSchedule() draws none like it.
struct ScheduleDifference {
  const char* reason;
  Schedule schedule;
  Outcome grpc;
  Outcome verbena;
};
std::vector<ScheduleDifference> ScheduleDifferences();

enum class Taker { kGrpc, kVerbena };

// Values of fields that only one of both takes.
struct ConfigDifference {
  Taker taker;
  const char* reason;
  std::vector<const char*> paths;  // As in Fields().
  std::vector<const char*> values;
};
const std::vector<ConfigDifference>& ConfigDifferences();
// Null if there is none.
const ConfigDifference* FindConfigDifference(const std::string& path,
                                             const std::string& value);

// Texts that only one of both takes for JSON, or for a service config.
struct TextDifference {
  Taker taker;
  const char* reason;
  // Whether the difference may come from the byte at `position`.
  bool (*covers)(const std::string& text, size_t position);
};
const std::vector<TextDifference>& TextDifferences();

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_DIFFERENCES_H_
