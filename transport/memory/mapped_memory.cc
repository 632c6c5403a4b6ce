#include "transport/memory/mapped_memory.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

void Unmap(uint8_t* data, size_t bytes) {
  if (bytes == 0) return;
  const int result = munmap(data, bytes);
  CHECK(result == 0) << "munmap: " << std::strerror(errno);
}

// Keeps `bytes` of the `bytes + kHugePageBytes` at `data`, from the first
// boundary of huge pages on, and unmaps the rest. Returns where the kept
// ones begin.
uint8_t* TrimToHugePage(uint8_t* data, size_t bytes) {
  const size_t misfit = reinterpret_cast<uintptr_t>(data) % kHugePageBytes;
  const size_t before = misfit == 0 ? 0 : kHugePageBytes - misfit;
  Unmap(data, before);
  Unmap(data + before + bytes, kHugePageBytes - before);
  return data + before;
}

// Returns pages of 2 MiB that the machine has set aside, or null if it has too
// few, or too few for us. mmap() looks only at the former: where a control
// group has a limit for huge pages, the first touch beyond it is SIGBUS. So all
// are touched here, in a way that fails instead. Kernels before 5.14 have no
// such way, and get none of these pages.
uint8_t* MapReservedHugePages(size_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) {
    return static_cast<uint8_t*>(data);
  }
  Unmap(static_cast<uint8_t*>(data), bytes);
  return nullptr;
}

}  // namespace

// Tries pages of 2 MiB that are set aside. Otherwise memory of 2 MiB and more
// is mapped with one huge page too many, and cut to begin at a boundary.
absl::StatusOr<MappedMemory> MappedMemory::Create(size_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("memory of zero bytes");
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX / 2) {  // Keeps the sums below in range.
    return ErrnoStatus("mmap", absl::StrCat(bytes, " bytes"), ENOMEM);
  }
  const size_t mapped_bytes =
      (bytes + page_bytes - 1) / page_bytes * page_bytes;
  const bool huge = mapped_bytes >= kHugePageBytes;
  // Whole huge pages only: munmap() refuses a part of one.
  if (bytes % kHugePageBytes == 0) {
    uint8_t* const data = MapReservedHugePages(bytes);
    if (data != nullptr) return MappedMemory(data, bytes);
  }
  // Without MAP_NORESERVE: nearly all of this memory is pinned at once, so it
  // is better to learn here that there is none than to be killed for it later.
  void* const data =
      mmap(nullptr, mapped_bytes + (huge ? kHugePageBytes : 0),
           PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus("mmap", absl::StrCat(bytes, " bytes"), errno);
  }
  if (!huge) return MappedMemory(static_cast<uint8_t*>(data), bytes);
  uint8_t* const aligned =
      TrimToHugePage(static_cast<uint8_t*>(data), mapped_bytes);
  // Only advice: a kernel without huge pages refuses, and nothing is lost.
  (void)madvise(aligned, mapped_bytes, MADV_HUGEPAGE);
  return MappedMemory(aligned, bytes);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void MappedMemory::Reset() {
  Unmap(data_, size_);  // The kernel rounds up to whole pages, as mmap did.
  data_ = nullptr;
  size_ = 0;
}

}  // namespace verbena::transport
