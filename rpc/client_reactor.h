// Calls without waiting: reactors, as in gRPC's callback API.
//
//   class Chatter final : public ClientBidiReactor<Note, Note> {
//    public:
//     explicit Chatter(RouteGuide::Stub* stub) {
//       stub->async()->Chat(&context_, this);
//       StartRead(&answer_);
//       StartWrite(&question_);
//       StartCall();
//     }
//     void OnReadDone(bool ok) override { if (ok) StartRead(&answer_); }
//     void OnWriteDone(bool) override { StartWritesDone(); }
//     void OnDone(const absl::Status& status) override { ... }
//     ...
//   };
//
// A reactor is given to a method of `stub->async()`, and its call begins with
// StartCall(). Its reactions are called one at a time, on the thread on which
// callbacks of unary calls run (see UnaryCallback), and like those should take
// microseconds, may block, and must not throw.
//
// OnDone() is the last one: it comes when the call has ended, all operations
// that were started are done, and there is no hold. Messages that nobody has
// started to read by then are dropped. So code that starts operations outside
// of reactions must add a hold before, and remove it after the last operation.
// Until OnDone() the reactor, the context and the messages must stay alive. If
// the process has no thread or descriptor left for a channel, StartCall()
// itself calls OnDone(), and no other reaction. From inside OnDone() on the
// reactor may be given to another call, with another or the same context.

#ifndef VERBENA_RPC_CLIENT_REACTOR_H_
#define VERBENA_RPC_CLIENT_REACTOR_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/support/stream_reactor.h"

namespace verbena {

// Called once with the status of a call, on a thread that the channels of a
// process share. It may make calls, also blocking ones, and should take
// microseconds. It must not throw.
//
// If a callback takes longer than a millisecond or two, because it blocks or
// computes, it keeps its thread and another one takes over. So it holds up no
// other, as long as there are less than some sixty of them and the system has
// threads to give. The calls that it starts go out when it returns, or when it
// has taken that long.
//
// With ChannelOptions::inline_callbacks it runs elsewhere, and promises more.
using UnaryCallback = absl::AnyInvocable<void(absl::Status)>;

namespace internal {

class StubAccess;

// A part of a reactor: its call begins when the user says so.
class CallStarter {
 public:
  // Starts the call. To be called once.
  void StartCall() {
    if (start_ == nullptr) {
      Fail(
          "StartCall() of a reactor that has no call to start: give it to a "
          "method of stub->async() first, once for each call");
    }
    // The reactor may be gone before that returns.
    std::exchange(start_, nullptr)();
  }

 protected:
  ~CallStarter() = default;

 private:
  friend class StubAccess;

  absl::AnyInvocable<void() &&> start_;
};

// The base of the client's reactors for methods that stream.
class ClientReactor : public StreamReactor, public CallStarter {
 public:
  // Delays OnDone() until RemoveHold() was called as many times. To be called
  // in a reaction, or before StartCall().
  void AddHold() { AddMultipleHolds(1); }
  void AddMultipleHolds(int holds) { AddHolds(holds); }
  // From any thread.
  void RemoveHold() { RemoveHoldAndAsk(); }

  // Called once, before the first OnReadDone(). If `ok`,
  // ClientContext::GetServerInitialMetadata() is complete: the server has sent
  // the metadata, or a message, after which none come. Not `ok` if the call has
  // ended without either.
  //
  // Called also if nothing is read. Until then the call waits for the first
  // message as if a read were started, and takes in all of it though it may
  // be long.
  virtual void OnReadInitialMetadataDone(bool /*ok*/) {}

  // The call has ended with `status`. The last reaction, in which the reactor
  // mostly deletes itself.
  virtual void OnDone(const absl::Status& status) = 0;

  // StartWritesDone() was carried out; not `ok` if the call has ended.
  virtual void OnWritesDoneDone(bool /*ok*/) {}

 protected:
  ~ClientReactor() = default;

  void EndWrites() { Want(kWritesDone); }
  void WriteLast(const google::protobuf::MessageLite* message,
                 Attachment attachment) {
    write_is_last_ = true;
    Write(message, attachment);
  }

  // Returns what OnDone() is told of a call that has ended with `status`.
  virtual absl::Status FinalStatus(absl::Status status) { return status; }
  // Whether OnReadInitialMetadataDone() is to be called. If another thread
  // reads, finding out would disturb it.
  virtual bool HearsOfInitialMetadata() const { return true; }

 private:
  friend class ReactorStream;

  // Whether the write that is started is that of StartWriteLast(). Clears it,
  // because the reactor may get another call.
  bool TakeWriteIsLast() { return std::exchange(write_is_last_, false); }

  bool write_is_last_ = false;  // By WriteLast().
};

}  // namespace internal

// For a unary call. It has OnDone() and nothing else: the response is there if
// the status is OK.
class ClientUnaryReactor : public internal::CallStarter {
 public:
  ClientUnaryReactor() = default;
  ClientUnaryReactor(const ClientUnaryReactor&) = delete;
  ClientUnaryReactor& operator=(const ClientUnaryReactor&) = delete;

  virtual void OnDone(const absl::Status& status) = 0;

 protected:
  ~ClientUnaryReactor() = default;
};

// For a method that streams its responses.
template <typename Response>
class ClientReadReactor : public internal::ClientReactor {
 public:
  // Reads the next message, and the bytes beside it unless `attachment` is
  // null. Both must stay alive until OnReadDone().
  void StartRead(Response* message, Buffer* attachment = nullptr) {
    Read(message, attachment);
  }

 protected:
  ~ClientReadReactor() = default;
};

// For a method that streams its requests. The response is there in OnDone(), if
// its status is OK.
template <typename Request>
class ClientWriteReactor : public internal::ClientReactor {
 public:
  // Sends a message, and bytes beside it. Both must stay as they are until
  // OnWriteDone(), which comes when they are serialised, or later, when too
  // much is under way that the server has not read.
  void StartWrite(const Request* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  // Writes the last message. OnWriteDone() follows, and no OnWritesDoneDone().
  void StartWriteLast(const Request* message, Attachment attachment = {}) {
    WriteLast(message, attachment);
  }
  // Tells the server that no message follows; OnWritesDoneDone() is called. Not
  // while a message is being written.
  void StartWritesDone() { EndWrites(); }

  void OnReadDone(bool ok) override { answered_ = ok; }

 protected:
  ~ClientWriteReactor() = default;

  // Has the response go to `*response`. Reads it at once.
  virtual void ReadResponse(google::protobuf::MessageLite* response) {
    Read(response, nullptr);
  }
  absl::Status FinalStatus(absl::Status status) override {
    if (!status.ok() || answered_) return status;
    return absl::InternalError("the server sent no response");
  }

 private:
  friend class internal::StubAccess;

  bool answered_ = false;
};

// For a method that streams both ways.
template <typename Request, typename Response>
class ClientBidiReactor : public internal::ClientReactor {
 public:
  // See ClientReadReactor and ClientWriteReactor.
  void StartRead(Response* message, Buffer* attachment = nullptr) {
    Read(message, attachment);
  }
  void StartWrite(const Request* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  void StartWriteLast(const Request* message, Attachment attachment = {}) {
    WriteLast(message, attachment);
  }
  void StartWritesDone() { EndWrites(); }

 protected:
  ~ClientBidiReactor() = default;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_REACTOR_H_
