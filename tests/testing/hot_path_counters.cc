#include "tests/testing/hot_path_counters.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace verbena::testing_support {
namespace {

thread_local bool counted = false;
std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> locks{0};

void Count(std::atomic<uint64_t>& counter) {
  if (counted) counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void CountThisThread() { counted = true; }

HotPathCounts CountedSoFar() {
  return {allocations.load(std::memory_order_relaxed),
          locks.load(std::memory_order_relaxed)};
}

}  // namespace verbena::testing_support

// glibc's own names for what the standard names below are made to count first.
// operator new ends in malloc() or in aligned_alloc().
extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the names are glibc's.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(readability-identifier-naming)

void* malloc(size_t bytes) {
  verbena::testing_support::Count(verbena::testing_support::allocations);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  verbena::testing_support::Count(verbena::testing_support::allocations);
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  verbena::testing_support::Count(verbena::testing_support::allocations);
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  verbena::testing_support::Count(verbena::testing_support::allocations);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto next =
      reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  verbena::testing_support::Count(verbena::testing_support::locks);
  return next(mutex);
}

}  // extern "C"
