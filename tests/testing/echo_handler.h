// A server's handler for tests of the transport.

#ifndef VERBENA_TESTS_TESTING_ECHO_HANDLER_H_
#define VERBENA_TESTS_TESTING_ECHO_HANDLER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/auth_context.h"
#include "transport/base/mutex.h"
#include "transport/server/server_call.h"

namespace verbena::testing_support {

// Methods of the EchoHandler: the method_id of a call.
enum class TestMethod : uint64_t {
  // Replies with metadata, message and attachment, inline.
  kEcho = 1,
  kEchoWorker = 2,  // As kEcho, but from another thread.
  // As kEcho, but writes the reply to AllocateReply() memory if there is any.
  kEchoBuffer = 3,
  kHold = 4,          // Replies with nothing, when Release()d or cancelled.
  kHoldStubborn = 5,  // Replies with nothing, only when Release()d.
  kDiscard = 6,       // Replies with nothing.
  kProduce = 7,  // Replies with as many bytes as the message's number says.
  kGrow = 9,     // Replies with 50 times the message.
  kFail = 8,     // ABORTED with the message as its text.
  // Replies with as many bytes as the message's number says beside an empty
  // message, from plain memory.
  kAttach = 10,
};

// Bytes that differ by place and by `seed`.
std::string TestBytes(size_t bytes, uint32_t seed = 1);

// Owns a worker thread. Must outlive the server. Methods may be called from any
// thread; those of ServerHandler on the server's pollers.
class EchoHandler final : public transport::ServerHandler {
 public:
  EchoHandler();
  ~EchoHandler();

  void OnCall(transport::ServerCall* call) override;
  void OnCancelled(transport::ServerCall* call) override;
  void OnUnauthenticated() override;

  // Calls of kHold or kHoldStubborn that have come in all.
  int held() const;
  int calls() const;            // Calls of all methods.
  int cancelled() const;        // Calls that OnCancelled() told of.
  int unauthenticated() const;  // Connections that OnUnauthenticated() told of.
  // Who the client of the last call was; null if nobody asked.
  std::shared_ptr<const transport::AuthContext> last_client() const;
  // Waits until held() or cancelled() or unauthenticated() is at least that;
  // false after a time.
  bool AwaitHeld(int count);
  bool AwaitCancelled(int count);
  bool AwaitUnauthenticated(int count);
  // Answers every call that is held, and all that come.
  void Release();

 private:
  using Job = std::pair<transport::ServerCall*, std::string>;

  void FinishOn(transport::ServerCall* call, std::string reply);
  void Hold(transport::ServerCall* call, bool stubborn);
  void Work();
  bool Await(int EchoHandler::*number, int count);

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<transport::ServerCall*> stubborn_ ABSL_GUARDED_BY(mutex_);
  std::vector<transport::ServerCall*> holding_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  int cancelled_ ABSL_GUARDED_BY(mutex_) = 0;
  int unauthenticated_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const transport::AuthContext> last_client_
      ABSL_GUARDED_BY(mutex_);
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread worker_;
};

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_ECHO_HANDLER_H_
