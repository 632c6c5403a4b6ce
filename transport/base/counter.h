// A number that is counted where it is dear, and read elsewhere.

#ifndef VERBENA_TRANSPORT_BASE_COUNTER_H_
#define VERBENA_TRANSPORT_BASE_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace verbena::base {

// One thread at a time changes it, and any may read it meanwhile: so a change
// is a load, an addition and a store, without the lock prefix that several
// writers would need. What is counted by several threads has a Counter for each
// of them, which whoever reads adds up.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  void Add(uint64_t count = 1) { Set(own_value() + count); }
  // Of one that goes up and down. REQUIRES: it is not less than that.
  void Subtract(uint64_t count = 1) { Set(own_value() - count); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_release); }

  // Who reads it sees all that its writer counted before, in other counters
  // too: those of calls that have ended, read first, are never more than those
  // that have begun.
  uint64_t value() const { return value_.load(std::memory_order_acquire); }

 private:
  uint64_t own_value() const { return value_.load(std::memory_order_relaxed); }

  std::atomic<uint64_t> value_{0};
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_COUNTER_H_
