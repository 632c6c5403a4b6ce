#include "transport/memory/mapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::transport {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t Misfit(const MappedMemory& memory, size_t alignment) {
  return reinterpret_cast<uintptr_t>(memory.data()) % alignment;
}

// Whether the page at `address` is in this process.
bool IsMapped(uint8_t* address) {
  unsigned char resident = 0;
  return mincore(address, 1, &resident) == 0;
}

TEST(MappedMemoryTest, IsZeroedAndAlignedToPages) {
  const absl::StatusOr<MappedMemory> memory = MappedMemory::Create(5000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->size(), 5000u);
  EXPECT_EQ(Misfit(*memory, kPage), 0u);
  EXPECT_EQ(std::count(memory->span().begin(), memory->span().end(), 0), 5000);
  std::fill(memory->span().begin(), memory->span().end(), 0xff);
}

TEST(MappedMemoryTest, AlignsLargeMemoryToHugePages) {
  for (const size_t bytes : {kHugePage, kHugePage + 1, 5 * kHugePage - kPage}) {
    const absl::StatusOr<MappedMemory> memory = MappedMemory::Create(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->size(), bytes);
    EXPECT_EQ(Misfit(*memory, kHugePage), 0u);
    memory->data()[0] = 1;
    memory->data()[bytes - 1] = 1;
  }
}

TEST(MappedMemoryTest, IsNotThereBeforeItIsTouched) {
  const absl::StatusOr<MappedMemory> memory =
      MappedMemory::Create(16 * kHugePage);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<unsigned char> resident(16 * kHugePage / kPage);
  memory->data()[0] = 1;
  ASSERT_EQ(mincore(memory->data(), memory->size(), resident.data()), 0);
  // There is at most the huge page that was touched.
  EXPECT_EQ(std::count_if(resident.begin() + kHugePage / kPage, resident.end(),
                          [](unsigned char page) { return (page & 1) != 0; }),
            0);
}

TEST(MappedMemoryTest, IsUnmappedWhenDestroyed) {
  for (const size_t bytes : {kPage, 3 * kPage - 1, 2 * kHugePage}) {
    absl::StatusOr<MappedMemory> memory = MappedMemory::Create(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    uint8_t* const first = memory->data();
    uint8_t* const last = first + (bytes - 1) / kPage * kPage;
    EXPECT_TRUE(IsMapped(first));
    EXPECT_TRUE(IsMapped(last));
    *memory = MappedMemory();
    EXPECT_FALSE(IsMapped(first));
    EXPECT_FALSE(IsMapped(last));
  }
}

TEST(MappedMemoryTest, KeepsItsAddressWhenItMoves) {
  MappedMemory from = *MappedMemory::Create(kPage);
  uint8_t* const address = from.data();
  address[7] = 42;
  MappedMemory to(std::move(from));
  EXPECT_EQ(from.data(), nullptr);  // NOLINT: what a moved-from one is.
  EXPECT_EQ(from.size(), 0u);
  EXPECT_EQ(to.data(), address);
  EXPECT_EQ(to.size(), kPage);

  MappedMemory other = *MappedMemory::Create(kPage);
  uint8_t* const replaced = other.data();
  other = std::move(to);
  EXPECT_EQ(other.data(), address);
  EXPECT_EQ(other.data()[7], 42);
  EXPECT_FALSE(IsMapped(replaced));
}

TEST(MappedMemoryTest, RefusesZeroBytes) {
  EXPECT_EQ(MappedMemory::Create(0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MappedMemoryTest, SaysHowMuchItCouldNotGet) {
  for (const size_t bytes : {size_t{1} << 60, SIZE_MAX, SIZE_MAX - kPage}) {
    const absl::Status status = MappedMemory::Create(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find(std::to_string(bytes)),
              absl::string_view::npos)
        << status;
  }
}

}  // namespace
}  // namespace verbena::transport
