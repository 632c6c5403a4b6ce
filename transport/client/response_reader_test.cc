#include "transport/client/response_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/client/client_call.h"
#include "transport/memory/buffer_pool.h"
#include "transport/memory/fake_registrar.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kBytes = 5000;

// A reply whose message was written to the lease.
ResponseHeader WrittenReply() {
  ResponseHeader header = {};
  header.frame.type = FrameType::kResponse;
  header.frame.flags = kFlagMessageInArena;
  header.frame.header_bytes = sizeof(header);
  header.message_bytes = kBytes;
  return header;
}

TEST(ResponseReaderTest, AMessageStaysAsItWasWhateverTheServerWritesLater) {
  FakeRegistrar registrar;
  BufferPool::Options options;
  options.first_region_bytes = options.max_bytes = options.largest_bytes =
      uint64_t{1} << 20;
  options.max_regions = 1;
  const std::unique_ptr<BufferPool> pool =
      *BufferPool::Create(registrar.pd(), options);
  const Buffer lease = pool->AllocateOrPlain(kBytes);
  std::memset(lease.data(), 'a', kBytes);

  const ResponseHeader header = WrittenReply();
  const absl::Span<const uint8_t> frame(
      reinterpret_cast<const uint8_t*>(&header), sizeof(header));
  ASSERT_EQ(FrameError(frame), nullptr);
  CallResponse response;
  Buffer message;
  Buffer attachment;
  ClientArenas arenas(*pool, kBytes);
  ASSERT_EQ(ReadResponse(frame, /*whole=*/nullptr, lease.Share(), arenas,
                         &response, &message, &attachment),
            nullptr);
  std::memset(lease.data(), 'b', kBytes);
  ASSERT_EQ(response.message.size(), kBytes);
  EXPECT_EQ(std::count(response.message.begin(), response.message.end(), 'a'),
            kBytes);
}

}  // namespace
}  // namespace verbena::transport
