// Where a control group allows fewer huge pages than the machine has.

#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "gtest/gtest.h"
#include "transport/memory/mapped_memory.h"

namespace {

void* huge = nullptr;    // Where the pages are that nobody may touch.
int unmapped = 0;        // How often they were given back.
int populate_errno = 0;  // The kernel's answer to populating them.

}  // namespace

// These take the place of the C library's. A machine that has huge pages maps
// some, and the control group lets nobody have them: a touch is a signal.
extern "C" void* mmap(void* address, size_t bytes, int protection, int flags,
                      int fd, off_t offset) noexcept {
  const bool is_huge = (flags & MAP_HUGETLB) != 0;
  void* const data = reinterpret_cast<void*>(
      syscall(SYS_mmap, address, bytes, is_huge ? PROT_NONE : protection,
              is_huge ? MAP_PRIVATE | MAP_ANONYMOUS : flags, fd, offset));
  if (is_huge) huge = data;
  return data;
}

extern "C" int munmap(void* data, size_t bytes) noexcept {
  if (data == huge) {
    ++unmapped;
    huge = nullptr;
  }
  return static_cast<int>(syscall(SYS_munmap, data, bytes));
}

extern "C" int madvise(void* data, size_t bytes, int advice) noexcept {
  if (data == huge && advice == MADV_POPULATE_WRITE) {
    errno = populate_errno;
    return -1;
  }
  return static_cast<int>(syscall(SYS_madvise, data, bytes, advice));
}

namespace verbena::transport {
namespace {

constexpr size_t kBytes = size_t{2} << 20;

// EFAULT is what the limit comes to, EINVAL what an older kernel says.
TEST(HugePageLimitTest, PagesThatNobodyMayTouchAreGivenBack) {
  for (const int error : {EFAULT, EINVAL}) {
    populate_errno = error;
    unmapped = 0;
    const absl::StatusOr<MappedMemory> memory = MappedMemory::Create(kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(unmapped, 1);
    std::memset(memory->data(), 1, kBytes);
  }
}

}  // namespace
}  // namespace verbena::transport
