// Makes frames of what a fuzzer gives: mostly sound ones, so that a session
// lives long enough for what only its state makes wrong.

#ifndef VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_
#define VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::transport {

// Values that a generated frame may refer to.
struct FrameSubjects {
  std::vector<uint32_t> call_ids;           // Not empty.
  ArenaDescriptor arena = {};               // The sender's arena.
  uint32_t frame_bytes_max = kBufferBytes;  // Limit of one SEND.
  uint64_t message_limit = 0;               // For WINDOW frames.
  FrameType type = FrameType{0};            // Type of all frames; 0: any type.
};

// The header that a frame begins with; what is missing of it is zero.
template <typename Header>
Header HeaderOf(const std::string& frame) {
  Header header = {};
  std::memcpy(&header, frame.data(), std::min(sizeof(header), frame.size()));
  return header;
}
template <typename Header>
void SetHeader(const Header& header, std::string* frame) {
  std::memcpy(frame->data(), &header, std::min(sizeof(header), frame->size()));
}

// Returns the key of the lease of a REQUEST; 0 if the lease has no key.
uint32_t LeaseKeyOf(const std::string& frame);

// Draws a number of bytes. Most are small, some exceed a frame or an arena.
uint32_t TakeLength(fuzz::FuzzInput& input);

// Draws a frame of subjects.type, with its CONTINUATIONs if it is too long for
// one SEND. Their fields for credits are not set.
std::vector<std::string> TakeFrames(fuzz::FuzzInput& input,
                                    const FrameSubjects& subjects);

// Changes nothing most often, else a few bytes of the header, or the length.
void TakeDamage(fuzz::FuzzInput& input, std::string* frame);

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_
