// The call's side of a reactor: serves the operations that it has started.

#ifndef VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_
#define VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "rpc/support/stream_reactor.h"

namespace verbena::internal {

// The call's side of a StreamReactor. Its functions are for the thread that
// runs reactions, unless their comment says otherwise. There is one such thread
// at a time.
class Reactions {
 public:
  // The result of one look at the reactor.
  enum class Look : uint8_t {
    kNothing,  // There was nothing that could be done.
    kDone,     // Something was done: there may be more to do.
    kOver,     // The reactor is gone, and so may be the call.
  };
  // Serves what is wanted, as flags of StreamReactor.
  using Serve = absl::FunctionRef<Look(uint32_t wanted)>;

  static constexpr uint32_t kRead = StreamReactor::kRead;
  static constexpr uint32_t kWrite = StreamReactor::kWrite;
  static constexpr uint32_t kWritesDone = StreamReactor::kWritesDone;
  static constexpr uint32_t kFinish = StreamReactor::kFinish;
  static constexpr uint32_t kEnded = StreamReactor::kEnded;
  static constexpr uint32_t kClosed = StreamReactor::kClosed;
  static constexpr uint32_t kSendInitial = StreamReactor::kSendInitial;
  static constexpr uint32_t kDropUnread = StreamReactor::kDropUnread;

  // To be called before anything else: `reactor` waits for `call`, which will
  // call Run() as if PostReactions() had been called.
  static void Bind(StreamReactor* reactor, ReactorCall* call) {
    if (reactor->call_ != nullptr) {
      Fail(
          "a reactor was given to a call before its last call has ended: use "
          "one reactor for each call, or wait for OnDone()");
    }
    reactor->call_ = call;
  }
  // To be called before the last reaction: `reactor` may have another call.
  // REQUIRES: none of its operations is started, and it has no hold.
  static void Unbind(StreamReactor* reactor) {
    reactor->call_ = nullptr;
    reactor->state_.store(StreamReactor::kAsked, std::memory_order_release);
  }

  // Instead of all this, for a call that cannot begin: its operations will
  // never be done. Holds stay, because their owners will remove them.
  static void Forget(StreamReactor* reactor) {
    Clear(reactor, kRead | kWrite | kWritesDone);
  }

  // Adds `what` to what is wanted, and has the call look. From any thread that
  // knows that the reactor is there, which it may not be afterwards.
  static void Tell(StreamReactor* reactor, uint32_t what = 0) {
    reactor->Want(what);
  }

  // Calls `serve` until there is nothing that could be done. Once for each
  // PostReactions(). After some operations others have their turn: then Run()
  // calls PostReactions() and returns.
  static void Run(StreamReactor* reactor, Serve serve);

  // --- From inside Serve ---

  // Whether the reactor holds its end back.
  static bool IsHeld(uint32_t wanted) { return wanted >= StreamReactor::kHold; }
  static google::protobuf::MessageLite* read_message(
      const StreamReactor& reactor) {
    return reactor.read_message_;
  }
  static Buffer* read_attachment(const StreamReactor& reactor) {
    return reactor.read_attachment_;
  }
  static const google::protobuf::MessageLite& write_message(
      const StreamReactor& reactor) {
    return *reactor.write_message_;
  }
  static Attachment write_attachment(const StreamReactor& reactor) {
    return reactor.write_attachment_;
  }
  // Marks operations as done: others may be started, from inside the
  // reaction too.
  static void Clear(StreamReactor* reactor, uint32_t what) {
    reactor->state_.fetch_and(~what, std::memory_order_acq_rel);
  }
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_
