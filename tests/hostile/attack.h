// The parts from which the attacks of the suite are made.

#ifndef VERBENA_TESTS_HOSTILE_ATTACK_H_
#define VERBENA_TESTS_HOSTILE_ATTACK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
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

// Addresses of the server under attack: where everybody may call, and where
// clients show credentials.
struct Target {
  std::string open;
  std::string secured;
};

// The key that the server takes at the second address. Attackers do not use its
// secret.
inline constexpr char kKeyName[] = "november";

// The side of an attacker: a process that does what it likes to the server,
// until its time is over. For one thread.
class Attacker {
 public:
  Attacker(Target target, absl::Duration duration)
      : target_(std::move(target)), end_(base::Now() + duration) {}

  const Target& target() const { return target_; }
  bool over() const { return base::Now() >= end_; }
  absl::Duration left() const { return end_ - base::Now(); }

  // A client of the real library.
  std::shared_ptr<Channel> NewChannel() const;

  // Changes what a client says of its arena.
  using Claim = std::function<void(transport::ArenaDescriptor&)>;

  // A raw client that has connected and said nothing, or one that was let in.
  // Null, and counted as refused, if the server does not take it.
  std::unique_ptr<transport::RawPeer> Connected(
      const transport::RawPeer::Options& options = Small(),
      const Claim& claim = nullptr);
  std::unique_ptr<transport::RawPeer> Opened(
      const transport::RawPeer::Options& options = Small(),
      const std::vector<transport::HelloOption>& hello = {},
      const Claim& claim = nullptr);

  // A raw client with little memory of its own.
  static transport::RawPeer::Options Small();
  // As Small(), but the client sends without regard to credits.
  static transport::RawPeer::Options Careless();

  // Until the time is over, makes raw clients that were let in, one after the
  // other, and calls `act` for each.
  void Repeat(const transport::RawPeer::Options& options,
              absl::FunctionRef<void(transport::RawPeer&)> act);
  // Waits for the end of the connection, or of the time.
  void AwaitEnd(transport::RawPeer& raw);
  // Does nothing more, or nothing for some time.
  void Wait();
  void Rest(absl::Duration time);

  // Counts a connection that the real library has made.
  void NoteConnection() { ++connections_; }
  void NoteRefusal() { ++refused_; }
  // Takes note of the reason in a BYE or in a RESPONSE, or of any other text.
  void NoteFrame(const std::string& frame);
  void NoteWord(std::string word);
  // Returns for how long the server kept the connection that it ended last of
  // all it ended, in milliseconds, or -1; and, behind a blank, the attack's
  // gains so far. Any thread.
  std::string Account();

 private:
  // Takes note of a new connection, or of a refusal if it is null.
  std::unique_ptr<transport::RawPeer> Noted(
      std::unique_ptr<transport::RawPeer> raw);

  const Target target_;
  const absl::Time end_;
  std::atomic<uint64_t> connections_ = 0;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> ended_ = 0;  // Connections that the server ended.
  // When each raw client connected.
  std::map<const transport::RawPeer*, absl::Time> connected_at_;
  base::Mutex mutex_;
  // The longest time for which the server kept a connection that it ended.
  absl::Duration longest_ ABSL_GUARDED_BY(mutex_);
  // The server's last reason.
  std::string last_word_ ABSL_GUARDED_BY(mutex_);
};

struct Attack {
  absl::string_view name;
  absl::string_view text;  // A description of the attack.
  void (*run)(Attacker&);
  // True if the attacker works without a pause, or makes the server do so. Such
  // an attack takes a processor.
  bool flood = false;
  // True if the attacker's process is stopped in the middle.
  bool stopped = false;
};

absl::Span<const Attack> AttacksOfConnections();
absl::Span<const Attack> AttacksOfFrames();
absl::Span<const Attack> AttacksOfMemory();
absl::Span<const Attack> AttacksOfWaiting();
absl::Span<const Attack> AttacksOfCalls();
std::vector<Attack> AllAttacks();

// Runs the attack of that name for so long once standard input has a line,
// prints what it has got, and ends the process, whatever the attack waits for.
int RunAttack(absl::string_view name, const Target& target,
              absl::Duration duration);

}  // namespace verbena::hostile

#endif  // VERBENA_TESTS_HOSTILE_ATTACK_H_
