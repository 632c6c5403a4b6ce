// How a call does what its reactor wants.

#ifndef VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_
#define VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "rpc/stream_reactor.h"

namespace verbena::internal {

// The call's side of a StreamReactor. Its functions are for the thread that
// runs reactions, of which there is one at a time, but for what says otherwise.
class Reactions {
 public:
  // What one look at the reactor has come to.
  enum class Look : uint8_t {
    kNothing,  // There was nothing that could be done.
    kDone,     // Something was done: there may be more to do.
    kOver,     // The reactor is gone, and so may be the call.
  };
  // What is wanted, as the flags of StreamReactor say.
  using Serve = absl::FunctionRef<Look(uint32_t wanted)>;

  static constexpr uint32_t kRead = StreamReactor::kRead;
  static constexpr uint32_t kWrite = StreamReactor::kWrite;
  static constexpr uint32_t kWritesDone = StreamReactor::kWritesDone;
  static constexpr uint32_t kFinish = StreamReactor::kFinish;
  static constexpr uint32_t kEnded = StreamReactor::kEnded;
  static constexpr uint32_t kClosed = StreamReactor::kClosed;
  static constexpr uint32_t kSendInitial = StreamReactor::kSendInitial;
  static constexpr uint32_t kDropUnread = StreamReactor::kDropUnread;

  // Before anything else: `call` is the one that `reactor` waits for, and will
  // call Run() as if it had been told to by PostReactions().
  static void Bind(StreamReactor* reactor, ReactorCall* call) {
    if (reactor->call_ != nullptr) FailSecondCall();
    reactor->call_ = call;
  }
  // Before the last reaction: `reactor` may have another call. REQUIRES: none
  // of its operations is started, and it has no hold.
  static void Unbind(StreamReactor* reactor) {
    reactor->call_ = nullptr;
    reactor->state_.store(StreamReactor::kAsked, std::memory_order_release);
  }

  // Instead of all this, for a call that cannot begin: its operations will
  // never be done. Holds stay, for whoever has them will remove them.
  static void Forget(StreamReactor* reactor) {
    Clear(reactor, kRead | kWrite | kWritesDone);
  }

  // Has `call` look, and find this. From any thread that knows that the reactor
  // is there, which it may not be afterwards.
  static void Tell(StreamReactor* reactor, uint32_t what = 0) {
    reactor->Want(what);
  }

  // Serves what is wanted until there is nothing that could be done. Once for
  // each PostReactions(). Not endlessly: others have their turn after some
  // operations, and then PostReactions() is called from inside this.
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
  // It is done: another one may be started, from inside the reaction too.
  static void Clear(StreamReactor* reactor, uint32_t what) {
    reactor->state_.fetch_and(~what, std::memory_order_acq_rel);
  }
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_STREAM_REACTIONS_H_
