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

// What each message of a call is.
struct Message {
  const char* name;
  size_t payload_bytes;
  size_t attachment_bytes;
};

// So many messages go each way that streams.
inline constexpr uint64_t kMessages = 4;

// Where a handler is.
enum class Place {
  kEntered,   // It has read nothing of a stream, and all of a unary call.
  kMidway,    // Half of the messages were read or written, or both.
  kReplying,  // It has read all, and is about to write the last, or the only
              // message if it writes any.
};

// What a handler does when it comes to one place. At others it goes on.
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

  // What calls do that begin from now on. While none runs.
  void Play(const Script& script);
  // Until so many handlers have come to the place of the script, since Play().
  void AwaitReached(int handlers);
  void LetGo();
  // Until no handler runs.
  void AwaitIdle();

  // What is allocated of the memory that the server registers for large parts
  // of calls. REQUIRES: an Echo has ended.
  uint64_t allocated_bytes();

 private:
  class EchoService;
  class Streams;
  class Visit;

  // A handler has come to a place. What is not OK ends it.
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
  Buffer probe_ ABSL_GUARDED_BY(mutex_);  // One of the server's pool.
};

// What is allocated of the pool that `probe` is of, but for the probe itself.
uint64_t AllocatedBeside(const Buffer& probe);

// One call, without a thread of its own.
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
