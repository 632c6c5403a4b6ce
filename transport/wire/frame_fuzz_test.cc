// Throws damaged frames at the codec. Each one stands in heap memory of exactly
// its size, so that a sanitizer sees a read outside of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/base/test_seed.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

using Bytes = std::vector<uint8_t>;

class FrameFuzzer {
 public:
  explicit FrameFuzzer(uint32_t seed) : random_(seed) {}

  // A frame that the codec accepts.
  Bytes Sound() {
    const auto type = static_cast<FrameType>(Number(1, kLastFrameType));
    Bytes frame(HeaderBytes(type), 0);
    Put<uint8_t>(&frame, 0, static_cast<uint8_t>(type));
    Put<uint16_t>(&frame, 2, HeaderBytes(type));
    switch (type) {
      case FrameType::kRequest:
        Put<uint32_t>(&frame, offsetof(RequestHeader, message_bytes), 20);
        if (Number(0, 1) == 1) {
          SetBody(&frame, 20);  // Nothing but a message.
          break;
        }
        Put<uint16_t>(&frame, offsetof(RequestHeader, metadata_bytes), 4);
        if (Number(0, 1) == 1) {
          Put<uint8_t>(&frame, 1, kFlagReplyLease);
          Put<uint32_t>(&frame, offsetof(RequestHeader, reply_bytes), 99);
        }
        SetBody(&frame, 24);
        break;
      case FrameType::kResponse:
        Put<uint32_t>(&frame, offsetof(ResponseHeader, message_bytes), 20);
        if (Number(0, 1) == 1) {
          SetBody(&frame, 20);
          break;
        }
        Put<uint16_t>(&frame, offsetof(ResponseHeader, metadata_bytes), 4);
        SetBody(&frame, 24);
        break;
      case FrameType::kResponsePending:
        Put<uint32_t>(&frame, offsetof(ResponsePendingHeader, message_bytes),
                      1);
        break;
      case FrameType::kLease:
        Put<uint32_t>(&frame, offsetof(LeaseHeader, bytes), 1);
        break;
      case FrameType::kReturn:
        Put<uint32_t>(&frame, offsetof(ReturnHeader, credits), 1);
        break;
      case FrameType::kHello:
      case FrameType::kWelcome:
      case FrameType::kBye:
      case FrameType::kCredentials:
        SetBody(&frame, Number(0, 40));
        break;
      case FrameType::kContinuation:
        SetBody(&frame, Number(1, 40));
        break;
      default:
        break;
    }
    return frame;
  }

  void Damage(Bytes* frame) {
    for (uint32_t times = Number(1, 4); times > 0; --times) {
      switch (Number(0, 5)) {
        case 0:
          frame->resize(Number(0, static_cast<uint32_t>(frame->size())));
          break;
        case 1:
          frame->resize(frame->size() + Number(1, 40), 0x5a);
          break;
        case 2:  // Often makes the length right again.
          if (frame->size() >= 16) {
            Put<uint32_t>(frame, 12,
                          static_cast<uint32_t>(frame->size()) -
                              std::min<uint32_t>((*frame)[2], 64));
          }
          break;
        case 3:
          if (frame->size() >= 4) {
            constexpr uint32_t kEdges[] = {0,          1,          0x7fffffff,
                                           0x80000000, 0xfffffff0, UINT32_MAX};
            Put<uint32_t>(frame, Place(*frame, 4), kEdges[Number(0, 5)]);
          }
          break;
        case 4:
          if (!frame->empty()) {
            (*frame)[Place(*frame, 1)] ^= uint8_t(1u << Number(0, 7));
          }
          break;
        default:
          if (!frame->empty()) {
            (*frame)[Place(*frame, 1)] = static_cast<uint8_t>(Number(0, 255));
          }
          break;
      }
    }
  }

 private:
  uint32_t Number(uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random_);
  }

  // Where in the header to put a value of `bytes`.
  size_t Place(const Bytes& frame, size_t bytes) {
    const size_t end = std::min<size_t>(frame.size(), 64);
    return Number(0, static_cast<uint32_t>((end - bytes) / bytes)) * bytes;
  }

  template <typename T>
  static void Put(Bytes* frame, size_t offset, T value) {
    ASSERT_LE(offset + sizeof(value), frame->size());
    std::memcpy(frame->data() + offset, &value, sizeof(value));
  }

  static void SetBody(Bytes* frame, uint32_t bytes) {
    Put<uint32_t>(frame, 12, bytes);
    frame->resize(frame->size() + bytes, 0x5a);
  }

  std::mt19937 random_;
};

size_t ReadAll(absl::Span<const uint8_t> part) {
  volatile uint8_t sink = 0;
  for (const uint8_t byte : part) sink = sink ^ byte;
  return part.size();
}

// Uses an accepted frame as a connection does.
void Use(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<FrameHeader>(frame);
  ASSERT_EQ(header.header_bytes, HeaderBytes(header.type));
  if ((header.flags & kFlagContinued) != 0) {
    // Its parts are looked for when all of it is there.
    ASSERT_EQ(ReadAll(FrameBody(frame)), frame.size() - header.header_bytes);
    return;
  }
  ASSERT_EQ(FrameBody(frame).size(), header.body_bytes);
  ASSERT_EQ(ReadAll(FrameBody(frame)), header.body_bytes);
  if (header.type == FrameType::kRequest) {
    const RequestBody body = SplitRequest(frame);
    ASSERT_LE(body.metadata.size(), kMaxMetadataBytes);
    ASSERT_EQ(ReadAll(body.metadata) + ReadAll(body.message) +
                  ReadAll(body.attachment),
              header.body_bytes);
  } else if (header.type == FrameType::kResponse) {
    const ResponseBody body = SplitResponse(frame);
    ASSERT_LE(body.metadata.size(), kMaxMetadataBytes);
    ASSERT_LE(body.status_message.size(), kMaxStatusMessageBytes);
    ASSERT_EQ(ReadAll(body.status_message) + ReadAll(body.metadata) +
                  ReadAll(body.message) + ReadAll(body.attachment),
              header.body_bytes);
  }
}

TEST(FrameFuzzTest, NoFrameIsReadBeyondItsEnd) {
  FrameFuzzer fuzzer(base::TestSeed());
  int accepted = 0;
  int plain = 0;
  for (int i = 0; i < 100000 && !HasFatalFailure(); ++i) {
    Bytes bytes = fuzzer.Sound();
    ASSERT_EQ(FrameError(bytes), nullptr) << "sound frame " << i;
    fuzzer.Damage(&bytes);
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const absl::Span<const uint8_t> frame(exact.get(), bytes.size());
    // Whoever sees a plain frame asks no further.
    if (IsPlainCall(frame)) {
      ++plain;
      ASSERT_EQ(FrameError(frame), nullptr) << "plain frame " << i;
    }
    if (FrameError(frame) == nullptr) {
      ++accepted;
      Use(frame);
    }
  }
  // Damage that no rule forbids (in the body, in credit_limit) is common, so
  // both ways through the codec were taken.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(plain, 100);
  EXPECT_LT(accepted, 90000);
}

}  // namespace
}  // namespace verbena::transport
