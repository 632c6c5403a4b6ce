// The relays of a process that linger, and the warnings of all.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_LINGERING_RELAYS_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_LINGERING_RELAYS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "transport/base/mutex.h"
#include "transport/base/rare_warning.h"

namespace verbena::soft {

// The relays whose own side has left. A relay whose queue pair or identifier is
// gone still has to send what came before, and to hear that its peer has it.
// Nobody but the exit of the process waits for that. Each has a descriptor, so
// that peers that do not read keep no more than kMax relays in all, and none
// for longer than kRelayLingerMax (relay.h).
//
// Thread-safe.
class LingeringRelays {
 public:
  static constexpr size_t kMax = 256;

  LingeringRelays() = default;
  LingeringRelays(const LingeringRelays&) = delete;
  LingeringRelays& operator=(const LingeringRelays&) = delete;

  // Returns a name for a relay that begins to linger. When there are too many,
  // calls `end` of the oldest, which then calls Remove().
  uint64_t Add(std::function<void()> end);
  // The kernel has all that the relay had to send.
  void NoteSent(uint64_t name);
  void Remove(uint64_t name);

  // Logs why a relay has ended its connection, once in a while for all relays.
  void Warn(absl::string_view text);

  // Waits, no longer than `longest`, until that is so of every relay.
  void AwaitSent(std::chrono::nanoseconds longest);

 private:
  struct Lingering {
    std::function<void()> end;
    bool sent = false;
  };

  bool AllSent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  base::CondVar changed_;
  base::RareWarning warning_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  // By name: the oldest comes first.
  std::map<uint64_t, Lingering> relays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_LINGERING_RELAYS_H_
