#include "tests/integration/hot_path_counters.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace verbena::end_to_end {
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

}  // namespace verbena::end_to_end

// glibc's own names for what the standard names below are made to count first.
// operator new ends in malloc().
extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the names are glibc's.
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
// NOLINTEND(readability-identifier-naming)

void* malloc(size_t bytes) {
  verbena::end_to_end::Count(verbena::end_to_end::allocations);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  verbena::end_to_end::Count(verbena::end_to_end::allocations);
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  verbena::end_to_end::Count(verbena::end_to_end::allocations);
  return __libc_realloc(memory, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto next =
      reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  verbena::end_to_end::Count(verbena::end_to_end::locks);
  return next(mutex);
}

}  // extern "C"
