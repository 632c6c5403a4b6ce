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

// What a frame may be about.
struct FrameSubjects {
  std::vector<uint32_t> call_ids;           // Not empty.
  ArenaDescriptor arena = {};               // Of whoever sends it.
  uint32_t frame_bytes_max = kBufferBytes;  // Of one SEND.
  uint64_t message_limit = 0;               // Of WINDOWs.
  FrameType type = FrameType{0};            // Of all frames; 0: of any type.
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

// The key of its own that a REQUEST lends with; 0 if it has none.
uint32_t LeaseKeyOf(const std::string& frame);

// A number of bytes, small ones most often; now and then more than a frame
// holds, or an arena.
uint32_t TakeLength(fuzz::FuzzInput& input);

// A frame of subjects.type, and the CONTINUATIONs of one that is too long for
// one SEND. What they say of credits is left out.
std::vector<std::string> TakeFrames(fuzz::FuzzInput& input,
                                    const FrameSubjects& subjects);

// Changes a few bytes of the header, or the length, or mostly nothing.
void TakeDamage(fuzz::FuzzInput& input, std::string* frame);

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_FRAMES_H_
