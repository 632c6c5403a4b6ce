// CHECK and its kin: assertions that stay on in production.
//
// They are for our own bugs only. What a user, a file, a peer or the kernel got
// wrong is an absl::Status, never a CHECK.
//
//   CHECK(slot < slots_.size());
//   CHECK_LE(credits, limit) << "after the peer's grant";
//
// A failed check prints the place, the condition and the message to standard
// error and aborts.

#ifndef VERBENA_TRANSPORT_BASE_CHECK_H_
#define VERBENA_TRANSPORT_BASE_CHECK_H_

#include <ostream>
#include <sstream>

namespace verbena::base {

// Collects the message of one failed check; aborts when destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Turns the stream expression of a check into void, so that it fits `?:`.
struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace verbena::base

#define CHECK(condition)                                                  \
  __builtin_expect(!!(condition), 1)                                      \
      ? (void)0                                                           \
      : ::verbena::base::CheckVoidify() &                                 \
            ::verbena::base::CheckFailure(__FILE__, __LINE__, #condition) \
                .stream()

#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << ' '
#define CHECK_NE(a, b) CHECK((a) != (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << ' '
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << ' '
#define CHECK_GT(a, b) CHECK((a) > (b)) << (a) << " vs " << (b) << ' '

#endif  // VERBENA_TRANSPORT_BASE_CHECK_H_
