// Figures: the memory, threads and descriptors of a process.

#ifndef VERBENA_TESTS_ENDURANCE_FIGURES_H_
#define VERBENA_TESTS_ENDURANCE_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::endurance {

// Figures by name. A line of text is "name=1 other=2".
using Figures = std::map<std::string, int64_t>;

std::string ToLine(const Figures& figures);
// Leaves out what does not look like a figure.
Figures FromLine(absl::string_view line);

// Returns the figures of this process: "resident", "mapped" and "pinned" memory
// in bytes (only kernel devices pin memory), the bytes that were allocated and
// not freed as "heap", "descriptors" and "threads".
Figures OwnFootprint();

}  // namespace verbena::endurance

#endif  // VERBENA_TESTS_ENDURANCE_FIGURES_H_
