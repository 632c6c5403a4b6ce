// Calls of each kind that can be stopped at named places, and words for what
// they may have left behind.

#ifndef VERBENA_TESTS_INTEGRATION_CANCELLATION_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_CANCELLATION_FIXTURE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "rpc/rpc.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.verbena.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

enum class Kind { kUnary, kClient, kServer, kBidi };

// Size of each message of a call.
struct Message {
  const char* name;
  size_t payload_bytes;
  size_t attachment_bytes;
};

// Number of messages of a stream, in each direction that streams.
inline constexpr uint64_t kMessages = 4;

// Where a handler is.
enum class Place {
  // The handler has read nothing of a stream, and all of a unary call.
  kEntered,
  // Half of a stream: the handler has just read its third message, or is about
  // to write it.
  kMidway,
  // The handler has just read the last message of a stream, or is about to
  // write it, or the reply of a unary call.
  kReplying,
};

// Tells handlers what to do when they come to `place`. At others they go on.
struct Script {
  Place place = Place::kEntered;
  // Waits there until its call is cancelled, or Handlers::LetGo().
  bool holds = false;
  // Ends there with ABORTED.
  bool fails = false;
};

// Handlers of all kinds, which send back what they get or, if nothing comes,
// the message that they were made for.
class Handlers {
 public:
  explicit Handlers(const Message& message);
  void Register(ServerBuilder* builder);

  // Sets the script of later calls. REQUIRES: no handler runs.
  void Play(const Script& script);
  // Waits until that many handlers have come to the place of the script since
  // Play() was called.
  void AwaitReached(int handlers);
  void LetGo();
  // Waits until no handler runs.
  void AwaitIdle();

  // Returns the bytes that are allocated in the memory that the server
  // registers for large parts of calls. REQUIRES: an Echo has ended.
  uint64_t allocated_bytes();

 private:
  class EchoService;
  class Streams;
  class Visit;

  // A handler calls this when it has come to a place. It ends if the result is
  // not OK.
  absl::Status Reach(Place place, ServerContext* context);

  const std::string payload_;
  const std::string attachment_;
  const std::unique_ptr<Service> echo_;
  const std::unique_ptr<Service> streams_;

  base::Mutex mutex_;
  base::CondVar changed_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  bool let_go_ ABSL_GUARDED_BY(mutex_) = false;
  int reached_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  // A buffer from the server's pool.
  Buffer probe_ ABSL_GUARDED_BY(mutex_);
};

// Returns the bytes that are allocated in the pool of `probe`, without the
// probe itself.
uint64_t AllocatedBeside(const Buffer& probe);

// A call of any kind, without a thread of its own.
class AnyCall {
 public:
  AnyCall() = default;
  AnyCall(const AnyCall&) = delete;
  AnyCall& operator=(const AnyCall&) = delete;
  // The call must have ended, or not have begun.
  virtual ~AnyCall() = default;

  static std::unique_ptr<AnyCall> New(Kind kind, const Message& message);

  // Neither keeps the channel.
  virtual void Start(const std::shared_ptr<Channel>& channel) = 0;
  absl::Status Wait();
  ClientContext& context() { return context_; }

 protected:
  void End(const absl::Status& status);

  ClientContext context_;

 private:
  absl::Status status_;
  Countdown ended_{1};
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_CANCELLATION_FIXTURE_H_
