// Handlers that do not block: reactors, as in gRPC's callback API.
//
//   class Echo final : public ServerBidiReactor<Note, Note> {
//    public:
//     Echo() { StartRead(&note_); }
//     void OnReadDone(bool ok) override {
//       if (!ok) return Finish(absl::OkStatus());
//       StartWrite(&note_);
//     }
//     // If that failed, so does the read.
//     void OnWriteDone(bool) override { StartRead(&note_); }
//     void OnDone() override { delete this; }
//
//    private:
//     Note note_;
//   };
//
//   ServerBidiReactor<Note, Note>* Chat(CallbackServerContext*) override {
//     return new Echo;
//   }
//
// The methods of a generated CallbackService return one. Everything happens on
// the thread that polls the network, so any number of calls may be open at once
// without a thread each: the method itself, and the reactions of one call, one
// at a time. They must return within microseconds, must not block, and must not
// throw. Operations may be started from any thread.

#ifndef VERBENA_RPC_SERVER_REACTOR_H_
#define VERBENA_RPC_SERVER_REACTOR_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/server_context.h"
#include "rpc/support/stream_reactor.h"

namespace verbena {

// As gRPC calls it.
using CallbackServerContext = ServerContext;

namespace internal {

// The base of all reactors of a server.
class ServerReactor : public StreamReactor {
 public:
  // Ends the call with this status: the response goes out with it, or behind
  // what was written, if it is OK. No operation may be started afterwards. The
  // first status counts: a second call of this function does nothing.
  void Finish(absl::Status status) {
    if (SetStatus(std::move(status))) Want(kFinish);
  }

  // Sends the initial metadata (ServerContext::AddInitialMetadata()), even if
  // there are none. OnSendInitialMetadataDone() follows. Not while a message is
  // being written. If this is not called, they go out with the first message or
  // the end of the call.
  void StartSendInitialMetadata() { Want(kSendInitial); }
  // The initial metadata were sent. Not `ok` if they can't reach the client:
  // either the call is cancelled, or they are more than the client takes, and
  // then Finish(OK) can't succeed either.
  virtual void OnSendInitialMetadataDone(bool /*ok*/) {}

  // Nobody waits for the answer any more: see ServerContext::IsCancelled().
  // Called at most once, and only before the end. Finish() must be called all
  // the same.
  virtual void OnCancel() {}

  // The call is over. The context and the messages are still there, but the
  // library no longer uses them or the reactor. The last reaction, in which
  // the reactor mostly deletes itself. Comes after Finish(), also if the
  // client is gone.
  virtual void OnDone() = 0;

 protected:
  ~ServerReactor() = default;

  void WriteAndFinish(const google::protobuf::MessageLite* message,
                      Attachment attachment, absl::Status status) {
    if (!SetStatus(std::move(status))) return;
    write_finishes_ = true;
    Write(message, attachment, kFinish);
  }

 private:
  friend class ReactorHandler;

  absl::Status TakeStatus() { return std::move(status_); }
  // Whether the write that is started is that of StartWriteAndFinish().
  bool write_finishes() const { return write_finishes_; }
  // Makes the reactor ready for another call.
  void Renew() {
    write_finishes_ = false;
    finished_.store(false, std::memory_order_relaxed);
  }
  // The reactor has its call.
  virtual void OnBound() {}
  // Whether OnDone() does anything. Only then is the context's state kept
  // for it.
  virtual bool reacts_to_done() const { return true; }

  // Returns false if there is a status already.
  bool SetStatus(absl::Status status) {
    if (finished_.exchange(true, std::memory_order_relaxed)) return false;
    status_ = std::move(status);
    return true;
  }

  absl::Status status_;                 // Set by Finish().
  std::atomic<bool> finished_ = false;  // status_ was set.
  bool write_finishes_ = false;         // By WriteAndFinish().
};

}  // namespace internal

// The request and the response, which the method gets, live until OnDone().
class ServerUnaryReactor : public internal::ServerReactor {
 protected:
  ~ServerUnaryReactor() = default;
};

// For a method that streams its requests. The response lives until OnDone().
template <typename Request>
class ServerReadReactor : public internal::ServerReactor {
 public:
  // Reads the next message, and the bytes beside it unless `attachment` is
  // null. Both must stay alive until OnReadDone().
  void StartRead(Request* message, Buffer* attachment = nullptr) {
    Read(message, attachment);
  }

 protected:
  ~ServerReadReactor() = default;
};

// For a method that streams its responses. The request lives until OnDone().
template <typename Response>
class ServerWriteReactor : public internal::ServerReactor {
 public:
  // Sends a message, and bytes beside it. Both must stay as they are until
  // OnWriteDone(), which comes when they are serialised, or later, when too
  // much is under way that the client has not read.
  void StartWrite(const Response* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  // As StartWrite(), but for the last message. It goes out together with the
  // status if Finish() is called from OnWriteDone() or right after this. The
  // message is not held back until then, as gRPC may do.
  void StartWriteLast(const Response* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  // As StartWrite() followed by Finish(). No OnWriteDone() follows.
  void StartWriteAndFinish(const Response* message, absl::Status status,
                           Attachment attachment = {}) {
    WriteAndFinish(message, attachment, std::move(status));
  }

 protected:
  ~ServerWriteReactor() = default;
};

// For a method that streams both ways.
template <typename Request, typename Response>
class ServerBidiReactor : public internal::ServerReactor {
 public:
  // See ServerReadReactor and ServerWriteReactor.
  void StartRead(Request* message, Buffer* attachment = nullptr) {
    Read(message, attachment);
  }
  void StartWrite(const Response* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  void StartWriteLast(const Response* message, Attachment attachment = {}) {
    Write(message, attachment);
  }
  void StartWriteAndFinish(const Response* message, absl::Status status,
                           Attachment attachment = {}) {
    WriteAndFinish(message, attachment, std::move(status));
  }

 protected:
  ~ServerBidiReactor() = default;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_REACTOR_H_
