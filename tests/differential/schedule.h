// Calls of a client under a service config, and a script for their server.

#ifndef VERBENA_TESTS_DIFFERENTIAL_SCHEDULE_H_
#define VERBENA_TESTS_DIFFERENTIAL_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace verbena::differential {

// A deadline that no call meets, and one that a call meets whose server hangs.
inline constexpr absl::Duration kFarDeadline = absl::Minutes(2);
inline constexpr absl::Duration kNearDeadline = absl::Milliseconds(80);

// The server's part in one attempt of a call.
struct Act {
  enum class Kind : uint8_t {
    kAnswer,
    kHang,  // Waits until the call is cancelled or its deadline passes.
    kDie,   // The server ends, with all connections, and another one starts.
  };
  Kind kind = Kind::kAnswer;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> pushbacks;  // Values of grpc-retry-pushback-ms.
  bool sends_initial_metadata = false;
  size_t reply_bytes = 8;
};

enum class Method : uint8_t { kFirstGet, kFirstPut, kSecondGet };

struct Call {
  Method method = Method::kFirstGet;
  size_t request_bytes = 8;
  std::optional<bool> wait_for_ready;
  absl::Duration timeout = kFarDeadline;
  bool server_is_away = false;  // Nobody listens while the call is made.
  // One for each attempt. Those that follow the last one do as that.
  std::vector<Act> acts = {Act()};
};

struct Schedule {
  uint64_t id = 0;
  std::string config;
  std::vector<Call> calls;
  // Whether a call ends by its deadline, so that a slow machine may change the
  // outcome.
  bool ends_by_deadline = false;
};

// Returns the schedule of a seed. Near deadlines are `patience` times as long.
// Leaves out what gRPC and Verbena are known to do differently: see
// differences.h.
Schedule DrawSchedule(uint64_t seed, int patience);

std::string ToString(const Schedule& schedule);

// A text for each call: the attempts that the server has seen, and the result
// that the client got.
using Outcome = std::vector<std::string>;

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_SCHEDULE_H_
