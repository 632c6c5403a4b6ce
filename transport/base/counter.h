// A number that is counted where it is dear, and read elsewhere.

#ifndef VERBENA_TRANSPORT_BASE_COUNTER_H_
#define VERBENA_TRANSPORT_BASE_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace verbena::base {

// A counter that one thread at a time changes, while any thread may read it.
// Adding is therefore a load, an addition and a store, without the lock prefix
// that several writers would need. To count on several threads, give each its
// own Counter; readers add them up.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void Add(uint64_t count = 1) { Set(own_value() + count); }
  // For a counter that goes up and down. REQUIRES: value() >= count.
  void Subtract(uint64_t count = 1) { Set(own_value() - count); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_release); }

  // Returns the count. Whatever the writer counted before, in other counters
  // too, is visible to later reads. So if the calls that have ended are read
  // first, they are never more than the calls that have begun.
  uint64_t value() const { return value_.load(std::memory_order_acquire); }

 private:
  uint64_t own_value() const { return value_.load(std::memory_order_relaxed); }

  std::atomic<uint64_t> value_{0};
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_COUNTER_H_
