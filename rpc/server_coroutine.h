// Handlers that are coroutines: the methods of a generated CoroutineService.
//
//   verbena::Task<absl::Status> Chat(
//       ServerContext* context,
//       CoroutineServerReaderWriter<Note, Note>* stream) override {
//     Note note;
//     while (co_await stream->Read(&note)) {
//       if (!co_await stream->Write(note)) break;
//     }
//     co_return absl::OkStatus();
//   }
//
// A handler begins on the thread that polls the network. After it has waited
// for its stream it goes on there, or on its Executor. So any number of calls
// may be open at once without a thread each. Between two waits it must take
// microseconds, and must not block. Its arguments live until it has ended. When
// the client cancels, waits end with false.

#ifndef VERBENA_RPC_SERVER_COROUTINE_H_
#define VERBENA_RPC_SERVER_COROUTINE_H_

#include "rpc/buffer.h"
#include "rpc/executor.h"
#include "rpc/support/coroutine_stream.h"

namespace verbena {

// `co_await reader->Read(&message)` is true when a message was read (and the
// bytes beside it), false when there will be no more.
template <typename Request>
class CoroutineServerReader {
 public:
  explicit CoroutineServerReader(internal::CoroutineStream* stream)
      : stream_(stream) {}

  auto Read(Request* message, Buffer* attachment = nullptr) {
    return internal::CoroutineStream::ReadAwaitable(stream_, message,
                                                    attachment);
  }
  // Sets the executor on which the handler goes on after it has waited. Not
  // while it waits.
  void set_executor(Executor* executor) { stream_->set_executor(executor); }

 private:
  internal::CoroutineStream* const stream_;
};

// `co_await writer->Write(message)` is true when the message is serialised,
// which may have to wait for the client to read, false if the call has ended.
template <typename Response>
class CoroutineServerWriter {
 public:
  explicit CoroutineServerWriter(internal::CoroutineStream* stream)
      : stream_(stream) {}

  auto Write(const Response& message, Attachment attachment = {}) {
    return internal::CoroutineStream::WriteAwaitable(stream_, &message,
                                                     attachment);
  }
  void set_executor(Executor* executor) { stream_->set_executor(executor); }

 private:
  internal::CoroutineStream* const stream_;
};

// For a method that streams both ways. One coroutine may read while
// another writes.
template <typename Response, typename Request>
class CoroutineServerReaderWriter : public CoroutineServerReader<Request>,
                                    public CoroutineServerWriter<Response> {
 public:
  explicit CoroutineServerReaderWriter(internal::CoroutineStream* stream)
      : CoroutineServerReader<Request>(stream),
        CoroutineServerWriter<Response>(stream) {}

  using CoroutineServerReader<Request>::set_executor;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_COROUTINE_H_
