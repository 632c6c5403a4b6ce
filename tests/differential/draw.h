// Random choices from a seed.

#ifndef VERBENA_TESTS_DIFFERENTIAL_DRAW_H_
#define VERBENA_TESTS_DIFFERENTIAL_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <random>

namespace verbena::differential {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  // Below `bound`.
  uint64_t Number(uint64_t bound) { return random_() % bound; }
  int From(int least, int most) {
    return least + static_cast<int>(Number(most - least + 1));
  }
  bool OneIn(uint64_t count) { return Number(count) == 0; }
  template <typename Value, size_t kCount>
  const Value& Of(const Value (&values)[kCount]) {
    return values[Number(kCount)];
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_DRAW_H_
