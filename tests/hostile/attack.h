// The parts from which the attacks of the suite are made.

#ifndef VERBENA_TESTS_HOSTILE_ATTACK_H_
#define VERBENA_TESTS_HOSTILE_ATTACK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/rpc.h"
#include "tests/transport/raw_peer.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace verbena::hostile {

// The side of an attacker: a process that does what it likes to the server at
// an address, until its time is over. For one thread.
class Attacker {
 public:
  Attacker(std::string address, absl::Duration duration)
      : address_(std::move(address)), end_(base::Now() + duration) {}

  const std::string& address() const { return address_; }
  bool over() const { return base::Now() >= end_; }
  absl::Duration left() const { return end_ - base::Now(); }

  // A client of the real library.
  std::shared_ptr<Channel> NewChannel() const;

  // A raw client that has connected and said nothing, or one that was let in.
  // Null, and counted as refused, if the server does not take it.
  std::unique_ptr<transport::RawPeer> Connected(
      const transport::RawPeer::Options& options = Small());
  std::unique_ptr<transport::RawPeer> Opened(
      const transport::RawPeer::Options& options = Small(),
      const std::vector<transport::HelloOption>& hello = {});

  // A raw client with little memory of its own.
  static transport::RawPeer::Options Small();
  // The same, and counts no credits.
  static transport::RawPeer::Options Careless();

  // Has `act` done to a new raw client that was let in, again and again.
  void Repeat(const transport::RawPeer::Options& options,
              absl::FunctionRef<void(transport::RawPeer&)> act);
  // Waits for the end of the connection, or of the time.
  void AwaitEnd(transport::RawPeer& raw);
  // Does nothing more.
  void Wait();

  // Counts a connection that the real library has made.
  void NoteConnection() { ++connections_; }
  void NoteRefusal() { ++refused_; }
  // Returns the attack's gains so far. Any thread.
  std::string Account();

 private:
  const std::string address_;
  const absl::Time end_;
  std::atomic<uint64_t> connections_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> ended_ = 0;  // By the server.
  base::Mutex mutex_;
  // Why, by its last BYE.
  std::string last_word_ ABSL_GUARDED_BY(mutex_);
};

struct Attack {
  absl::string_view name;
  absl::string_view text;  // What the attacker does.
  void (*run)(Attacker&);
  bool stopped = false;  // Its process is stopped in the middle.
};

absl::Span<const Attack> AllAttacks();

// Runs the attack of that name for so long, prints what it has got, and ends
// the process, whatever the attack waits for.
int RunAttack(absl::string_view name, const std::string& address,
              absl::Duration duration);

}  // namespace verbena::hostile

#endif  // VERBENA_TESTS_HOSTILE_ATTACK_H_
