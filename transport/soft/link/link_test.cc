#include "transport/soft/link/link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/status/status.h"

namespace verbena::soft {
namespace {

TEST(LinkMemoryTest, StartsEmpty) {
  absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (LinkSide side : {LinkSide::kFirst, LinkSide::kSecond}) {
    EXPECT_EQ(memory->words(side).progress, 0u);
    EXPECT_EQ(memory->words(side).sleep, uint32_t{kAwake});
    EXPECT_EQ(memory->words(side).state, uint32_t{kLinkNotReady});
    for (size_t i = 0; i < 2 * kLinkRingBytes; i += 64) {
      ASSERT_EQ(memory->ring(side)[i], std::byte{0});
    }
  }
}

TEST(LinkMemoryTest, EachRingIsMappedTwiceInARow) {
  absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
  ASSERT_TRUE(memory.ok());
  std::byte* first = memory->ring(LinkSide::kFirst);
  std::byte* second = memory->ring(LinkSide::kSecond);
  std::memcpy(first + kLinkRingBytes - 3, "across", 6);
  EXPECT_EQ(std::memcmp(first, "oss", 3), 0);
  EXPECT_EQ(second[0], std::byte{0});
}

TEST(LinkMemoryTest, TheSameFileIsMappedOnceInAProcess) {
  absl::StatusOr<LinkMemory> one = LinkMemory::Create();
  ASSERT_TRUE(one.ok());
  absl::StatusOr<LinkMemory> two = LinkMemory::Map(one->fd());
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(one->ring(LinkSide::kFirst), two->ring(LinkSide::kFirst));
  absl::StatusOr<LinkMemory> other = LinkMemory::Create();
  ASSERT_TRUE(other.ok());
  EXPECT_NE(one->ring(LinkSide::kFirst), other->ring(LinkSide::kFirst));
}

TEST(LinkMemoryTest, ItIsGoneWithItsLastOwner) {
  const auto descriptors = [] {
    const int fd = dup(0);
    close(fd);
    return fd;  // The lowest free number: grows when one leaks.
  };
  const int before = descriptors();
  {
    absl::StatusOr<LinkMemory> one = LinkMemory::Create();
    ASSERT_TRUE(one.ok());
    ASSERT_TRUE(LinkMemory::Map(one->fd()).ok());
  }
  EXPECT_EQ(descriptors(), before);
}

// The descriptors of a process are limited, and it may have many links.
TEST(LinkMemoryTest, TheSideThatMapsItKeepsNoDescriptor) {
  absl::StatusOr<LinkMemory> one = LinkMemory::Create();
  ASSERT_TRUE(one.ok());
  absl::StatusOr<LinkMemory> two = LinkMemory::Map(one->fd());
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->fd(), -1);
  const base::UniqueFd passed_on = one->TakeDescriptor();
  EXPECT_EQ(one->fd(), -1);
  absl::StatusOr<LinkMemory> three = LinkMemory::Map(passed_on.get());
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(one->ring(LinkSide::kFirst), three->ring(LinkSide::kFirst));
}

// A descriptor that a peer might send instead of a link.
class ForeignFile {
 public:
  ForeignFile(size_t bytes, int seals)
      : fd_(memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(ftruncate(fd_, bytes), 0);
    EXPECT_EQ(fcntl(fd_, F_ADD_SEALS, seals), 0);
  }
  ~ForeignFile() { close(fd_); }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

constexpr size_t kRightSize = 4096 + 2 * kLinkRingBytes;

TEST(LinkMemoryTest, AFileThatCouldShrinkIsRefused) {
  ForeignFile file(kRightSize, F_SEAL_GROW);
  const absl::Status status = LinkMemory::Map(file.fd()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("seals"), std::string::npos) << status;
}

TEST(LinkMemoryTest, AFileOfAnotherSizeIsRefused) {
  for (size_t size : {size_t{0}, kRightSize - 1, kRightSize + 4096}) {
    ForeignFile file(size, F_SEAL_SHRINK | F_SEAL_GROW);
    EXPECT_FALSE(LinkMemory::Map(file.fd()).ok()) << size;
  }
}

TEST(LinkMemoryTest, AForeignHeaderIsRefused) {
  ForeignFile file(kRightSize, F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_FALSE(LinkMemory::Map(file.fd()).ok());
}

TEST(LinkMemoryTest, AFileThatIsNotWritableIsRefused) {
  ForeignFile file(kRightSize, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  EXPECT_FALSE(LinkMemory::Map(file.fd()).ok());
}

TEST(LinkMemoryTest, WhatIsNoMemoryFileIsRefused) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_FALSE(LinkMemory::Map(pipes[0]).ok());
  EXPECT_FALSE(LinkMemory::Map(-1).ok());
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace verbena::soft
