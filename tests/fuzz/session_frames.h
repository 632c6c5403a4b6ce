// Makes frames of what a fuzzer gives: mostly sound ones, so that a session
// lives long enough for what only its state makes wrong.

#ifndef VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_
#define VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// What a frame may be about.
struct FrameSubjects {
  std::vector<uint32_t> call_ids;  // Not empty.
  ArenaDescriptor arena = {};      // Of whoever sends it.
};

// A number of bytes, small ones most often; now and then more than a frame
// holds, or an arena.
uint32_t TakeLength(fuzz::FuzzInput& input);

// A frame of any type, and the CONTINUATIONs of one that is too long for one
// SEND. What they say of credits is left out.
std::vector<std::string> TakeFrames(fuzz::FuzzInput& input,
                                    const FrameSubjects& subjects);

// Changes a few bytes of the header, or the length, or mostly nothing.
void TakeDamage(fuzz::FuzzInput& input, std::string* frame);

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_
