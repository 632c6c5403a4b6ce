// Tests that streams leave no memory behind in a process that is both client
// and server.

#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/streaming_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

constexpr uint64_t kMessages = 1'000'000;

// Four bytes for each of a million messages.
constexpr uint64_t kMostGrowth = 4 << 20;

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  uint64_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

class StreamingMemoryTest : public StreamingTest {
 protected:
  void SetUp() override { Serve(); }

  // `run` with so many messages, or calls.
  static void ExpectFlat(uint64_t count,
                         absl::FunctionRef<void(uint64_t)> run) {
    run(count / 10);
    const uint64_t before = ResidentBytes();
    run(count);
    const uint64_t after = ResidentBytes();
    std::printf("resident MB: %.1f before, %.1f after\n", double(before) / 1e6,
                double(after) / 1e6);
    EXPECT_LT(after, before + kMostGrowth);
  }
};

TEST_F(StreamingMemoryTest, AMillionMessagesToTheClientKeepItFlat) {
  ExpectFlat(kMessages, [this](uint64_t count) {
    ClientContext context;
    ListRequest request;
    request.set_count(count);
    const auto reader = stub_->List(&context, request);
    Item item;
    uint64_t read = 0;
    while (reader->Read(&item) && item.number() == read) ++read;
    EXPECT_EQ(read, count);
    EXPECT_EQ(reader->Finish(), absl::OkStatus());
  });
}

TEST_F(StreamingMemoryTest, AMillionMessagesToTheServerKeepItFlat) {
  ExpectFlat(kMessages, [this](uint64_t count) {
    ClientContext context;
    Summary summary;
    const auto writer = stub_->Record(&context, &summary);
    Item item;
    for (uint64_t i = 0; i < count; ++i) {
      item.set_number(i);
      ASSERT_TRUE(writer->Write(item));
    }
    EXPECT_EQ(writer->Finish(), absl::OkStatus());
    EXPECT_EQ(summary.count(), count);
    EXPECT_TRUE(summary.in_order());
  });
}

TEST_F(StreamingMemoryTest, TenThousandStreamsKeepItFlat) {
  ExpectFlat(10'000, [this](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ClientContext context;
      const auto stream = stub_->Chat(&context);
      EXPECT_TRUE(Echoes(*stream, NewItem(i, 100)));
      // Every second one is given up in the middle.
      if (i % 2 == 0) {
        EXPECT_TRUE(stream->WritesDone());
        EXPECT_EQ(stream->Finish(), absl::OkStatus());
      }
    }
  });
}

}  // namespace
}  // namespace verbena::end_to_end
