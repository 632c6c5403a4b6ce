// What a process holds, as numbers with names.

#ifndef VERBENA_TESTS_ENDURANCE_FIGURES_H_
#define VERBENA_TESTS_ENDURANCE_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::endurance {

// By name. A line of text is "name=1 other=2".
using Figures = std::map<std::string, int64_t>;

std::string ToLine(const Figures& figures);
// Leaves out what does not look like a figure.
Figures FromLine(absl::string_view line);

// Of this process: "resident", "mapped" and "pinned" memory in bytes (pinned by
// kernel devices, for none other pins), "heap" for the bytes that were
// allocated and not freed, "descriptors" and "threads".
Figures OwnFootprint();

}  // namespace verbena::endurance

#endif  // VERBENA_TESTS_ENDURANCE_FIGURES_H_
