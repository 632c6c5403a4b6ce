// Whatever a frame is, it is refused or can be used; nothing is read outside.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

using fuzz::ReadAll;

void ReadParts(const FrameHeader& header, size_t bytes) {
  CHECK_EQ(bytes, header.body_bytes);
}

// Uses an accepted frame as a connection does.
void Use(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<FrameHeader>(frame);
  CHECK_EQ(header.header_bytes, HeaderBytes(header.type));
  ReadAll(FrameBody(frame));
  if ((header.flags & kFlagContinued) != 0) {
    // Its parts are looked for when all of it is there.
    CHECK_EQ(FrameBody(frame).size(), frame.size() - header.header_bytes);
    CHECK_LT(FrameBody(frame).size(), header.body_bytes);
    return;
  }
  ReadParts(header, FrameBody(frame).size());
  if (header.type == FrameType::kRequest) {
    const RequestBody body = SplitRequest(frame);
    for (const auto part : {body.metadata, body.message, body.attachment}) {
      ReadAll(part);
    }
    CHECK_LE(body.metadata.size(), kFrameMetadataBytes);
    ReadParts(header, body.metadata.size() + body.message.size() +
                          body.attachment.size());
  } else if (header.type == FrameType::kResponse) {
    const ResponseBody body = SplitResponse(frame);
    for (const auto part :
         {body.status_message, body.metadata, body.message, body.attachment}) {
      ReadAll(part);
    }
    CHECK_LE(body.metadata.size(), kFrameMetadataBytes);
    CHECK_LE(body.status_message.size(), kMaxStatusMessageBytes);
    ReadParts(header, body.status_message.size() + body.metadata.size() +
                          body.message.size() + body.attachment.size());
  }
}

void Check(absl::Span<const uint8_t> frame) {
  const char* const error = FrameError(frame);
  // The receiver of a plain frame does not ask for its FrameError().
  if (IsPlainCall(frame)) CHECK(error == nullptr) << error;
  if (error == nullptr) Use(frame);
  absl::Span<const uint8_t> rest = frame;
  FrameSums stated = {};
  uint32_t found = 0;
  if (!TakeSums(&rest, &stated, &found)) return;
  CHECK_EQ(rest.size() + sizeof(stated), frame.size());
  ReadAll(rest);
}

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::transport::Check({data, size});
  return 0;
}
