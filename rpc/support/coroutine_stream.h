// The operations of coroutines that read from and write to a stream, at
// either end of a call: client_coroutine.h and server_coroutine.h stand on
// them.

#ifndef VERBENA_RPC_SUPPORT_COROUTINE_STREAM_H_
#define VERBENA_RPC_SUPPORT_COROUTINE_STREAM_H_

#include <coroutine>
#include <utility>

#include "google/protobuf/message_lite.h"
#include "rpc/buffer.h"
#include "rpc/executor.h"
#include "rpc/support/stream_reactor.h"

namespace verbena::internal {

// A part of a reactor: coroutines await its operations, one that reads and one
// that writes. What can be done at once does not suspend them.
class CoroutineStream {
 public:
  // Operations that a coroutine awaits: what Read() and Write() return.
  class [[nodiscard]] ReadAwaitable {
   public:
    ReadAwaitable(CoroutineStream* stream,
                  google::protobuf::MessageLite* message, Buffer* attachment)
        : stream_(*stream), message_(message), attachment_(attachment) {}
    bool await_ready() { return stream_.TryNow(&stream_.reader_, *this); }
    void await_suspend(std::coroutine_handle<> coroutine) {
      stream_.reader_.coroutine = coroutine;
      stream_.BeginRead(message_, attachment_);
    }
    bool await_resume() const { return stream_.reader_.ok; }

    OperationNow Try() { return stream_.TryRead(message_, attachment_); }

   private:
    CoroutineStream& stream_;
    google::protobuf::MessageLite* const message_;
    Buffer* const attachment_;
  };

  class [[nodiscard]] WriteAwaitable {
   public:
    WriteAwaitable(CoroutineStream* stream,
                   const google::protobuf::MessageLite* message,
                   Attachment attachment)
        : stream_(*stream), message_(message), attachment_(attachment) {}
    bool await_ready() { return stream_.TryNow(&stream_.writer_, *this); }
    void await_suspend(std::coroutine_handle<> coroutine) {
      stream_.writer_.coroutine = coroutine;
      stream_.BeginWrite(message_, attachment_);
    }
    bool await_resume() const { return stream_.writer_.ok; }

    OperationNow Try() { return stream_.TryWrite(*message_, attachment_); }

   private:
    CoroutineStream& stream_;
    const google::protobuf::MessageLite* const message_;
    const Attachment attachment_;
  };

  // Sets the executor on which coroutines go on after they have waited; null:
  // see Executor. Not while one waits.
  void set_executor(Executor* executor) { executor_ = executor; }
  Executor* executor() const { return executor_; }

 protected:
  ~CoroutineStream() = default;

  virtual OperationNow TryRead(google::protobuf::MessageLite* message,
                               Buffer* attachment) = 0;
  virtual OperationNow TryWrite(const google::protobuf::MessageLite& message,
                                Attachment attachment) = 0;
  virtual void BeginRead(google::protobuf::MessageLite* message,
                         Buffer* attachment) = 0;
  virtual void BeginWrite(const google::protobuf::MessageLite* message,
                          Attachment attachment) = 0;

  // The reactions. The stream may be gone when they return.
  void EndRead(bool ok) { End(&reader_, ok); }
  void EndWrite(bool ok) { End(&writer_, ok); }

 private:
  struct Waiting {
    std::coroutine_handle<> coroutine;
    bool ok = false;
    int at_once = 0;  // Operations since it has waited.
  };

  // Operations that may be done without a break: the thread has other calls.
  static constexpr int kMostAtOnce = 16;

  template <typename Awaitable>
  static bool TryNow(Waiting* waiting, Awaitable& awaitable) {
    if (++waiting->at_once >= kMostAtOnce) return false;
    const OperationNow now = awaitable.Try();
    waiting->ok = now == OperationNow::kDone;
    return now != OperationNow::kMustWait;
  }
  void End(Waiting* waiting, bool ok) {
    waiting->ok = ok;
    waiting->at_once = 0;
    Resume(executor_, std::exchange(waiting->coroutine, nullptr));
  }

  Executor* executor_ = nullptr;
  Waiting reader_;
  Waiting writer_;
};

// Makes a reactor whose coroutine reads, or writes.
template <typename Reactor>
class CoroutineReactor : public Reactor, public CoroutineStream {
 public:
  void OnReadDone(bool ok) override {
    if constexpr (requires { this->ReadResponse(nullptr); }) {
      // The library reads, not the coroutine.
      Reactor::OnReadDone(ok);
    } else {
      EndRead(ok);
    }
  }
  void OnWriteDone(bool ok) override { EndWrite(ok); }

 protected:
  ~CoroutineReactor() = default;

  OperationNow TryRead(google::protobuf::MessageLite* message,
                       Buffer* attachment) override {
    return this->ReadNow(message, attachment);
  }
  OperationNow TryWrite(const google::protobuf::MessageLite& message,
                        Attachment attachment) override {
    return this->WriteNow(message, attachment);
  }
  void BeginRead(google::protobuf::MessageLite* message,
                 Buffer* attachment) override {
    if (!this->has_call()) return EndRead(false);
    this->Read(message, attachment);
  }
  void BeginWrite(const google::protobuf::MessageLite* message,
                  Attachment attachment) override {
    if (!this->has_call()) return EndWrite(false);
    this->Write(message, attachment);
  }
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_SUPPORT_COROUTINE_STREAM_H_
