// The common base of the reactors of client_reactor.h and server_reactor.h.

#ifndef VERBENA_RPC_SUPPORT_STREAM_REACTOR_H_
#define VERBENA_RPC_SUPPORT_STREAM_REACTOR_H_

#include <atomic>
#include <cstdint>

#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"

namespace verbena::internal {

// The result of trying to read or write a message without waiting.
enum class OperationNow : uint8_t {
  kDone,
  kEnded,  // As OnReadDone(false) and OnWriteDone(false).
  kMustWait,
};

// Ends the process, because the user's code does what it must not, and would
// wait for ever, or use memory that is gone.
[[noreturn]] void Fail(const char* why);

// The call of a reactor, as the reactor sees it.
class ReactorCall {
 public:
  // Has the call serve its reactor, on the thread that it calls reactions on,
  // and never from inside this function.
  virtual void PostReactions() = 0;

  // Reads a message that has already arrived, or writes one for which there is
  // room. From any thread; no other read, or write, may be under way.
  virtual OperationNow ReadNow(google::protobuf::MessageLite* message,
                               Buffer* attachment) = 0;
  virtual OperationNow WriteNow(const google::protobuf::MessageLite& message,
                                Attachment attachment) = 0;

  // For a client: ends the call with CANCELLED if it has not ended, and returns
  // when the library no longer uses its context. OnDone() is still to come.
  // REQUIRES: the reactor has a hold.
  virtual void Abandon() {}

 protected:
  ~ReactorCall() = default;
};

// A user's object that starts operations of a call, and is called when they are
// done: these functions are its *reactions*. They are called one at a time, in
// the order of the events, and should take microseconds.
//
// Operations may be started from any thread, also before the reactor has its
// call; one of each kind at a time. A reactor has one call at a time. It may be
// given another from inside OnDone() on.
class StreamReactor {
 public:
  StreamReactor() = default;
  StreamReactor(const StreamReactor&) = delete;
  StreamReactor& operator=(const StreamReactor&) = delete;

  // A message was read (and the attachment, if one was asked for), or there
  // will be no more: the other side has sent all, or the call has ended.
  virtual void OnReadDone(bool /*ok*/) {}
  // A message was taken, or the call has ended and nobody will read it.
  virtual void OnWriteDone(bool /*ok*/) {}

 protected:
  ~StreamReactor() = default;

  void Read(google::protobuf::MessageLite* message, Buffer* attachment) {
    read_message_ = message;
    read_attachment_ = attachment;
    Want(kRead);
  }
  // `what` are operations that are wanted once the message is written.
  void Write(const google::protobuf::MessageLite* message,
             Attachment attachment, uint32_t what = 0) {
    write_message_ = message;
    write_attachment_ = attachment;
    Want(kWrite | what);
  }

  // Whether the reactor has a call. False also if the call could not be made.
  bool has_call() const { return call_ != nullptr; }
  // See ReactorCall. kEnded without a call.
  OperationNow ReadNow(google::protobuf::MessageLite* message,
                       Buffer* attachment) {
    return has_call() ? call_->ReadNow(message, attachment)
                      : OperationNow::kEnded;
  }
  OperationNow WriteNow(const google::protobuf::MessageLite& message,
                        Attachment attachment) {
    return has_call() ? call_->WriteNow(message, attachment)
                      : OperationNow::kEnded;
  }
  void Abandon() { call_->Abandon(); }

  // All state about the order of events is in one word. So a thread that
  // starts an operation touches nothing of the reactor afterwards: it may be
  // gone by then.
  static constexpr uint32_t kAsked = 1;    // The call is to look (once more).
  static constexpr uint32_t kRunning = 2;  // Reactions are running.
  static constexpr uint32_t kRead = 4;     // These are operations.
  static constexpr uint32_t kWrite = 8;
  static constexpr uint32_t kWritesDone = 16;
  static constexpr uint32_t kFinish = 32;
  static constexpr uint32_t kEnded = 64;         // The call has its status.
  static constexpr uint32_t kClosed = 128;       // It may be destroyed.
  static constexpr uint32_t kSendInitial = 256;  // Metadata, of a server.
  static constexpr uint32_t kDropUnread = 512;   // Clients: nobody will read.
  static constexpr uint32_t kHold = 1024;  // And all above: how many there are.

  // Adds `what` to the operations that are wanted, and has the call look.
  void Want(uint32_t what) {
    const uint32_t before =
        state_.fetch_or(what | kAsked, std::memory_order_acq_rel);
    if ((before & (kAsked | kRunning)) == 0) call_->PostReactions();
  }
  // Has the call drop all further messages, from the next time it looks.
  void DropUnread() { state_.fetch_or(kDropUnread, std::memory_order_relaxed); }
  void AddHolds(int holds) {
    state_.fetch_add(static_cast<uint32_t>(holds) * kHold,
                     std::memory_order_relaxed);
  }
  void RemoveHoldAndAsk() {
    uint32_t before = state_.load(std::memory_order_relaxed);
    do {
      if (before < kHold) {
        Fail(
            "RemoveHold() was called more often than AddHold(): call it once "
            "for each hold");
      }
    } while (!state_.compare_exchange_weak(before, (before - kHold) | kAsked,
                                           std::memory_order_acq_rel));
    if ((before & (kAsked | kRunning)) == 0) call_->PostReactions();
  }

 private:
  friend class Reactions;

  // Before the reactor has its call, as if the call had been told to look.
  std::atomic<uint32_t> state_{kAsked};
  ReactorCall* call_ = nullptr;

  google::protobuf::MessageLite* read_message_ = nullptr;
  Buffer* read_attachment_ = nullptr;
  const google::protobuf::MessageLite* write_message_ = nullptr;
  Attachment write_attachment_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_STREAM_REACTOR_H_
