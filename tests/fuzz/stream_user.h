// StreamUser, which reads and writes a stream of a fuzzed session.

#ifndef VERBENA_TESTS_FUZZ_STREAM_USER_H_
#define VERBENA_TESTS_FUZZ_STREAM_USER_H_

#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/streams/message_stream.h"

namespace verbena::transport {

// On the thread of the poller, which is the only one.
class StreamUser final : public MessageStream::Owner {
 public:
  // The stream is to be set before it is used, and its owner to this.
  void set_stream(MessageStream* stream) { stream_ = stream; }

  void PostStream() override { stream_->Run(); }
  void OnReadable() override {}
  void OnWritable() override {}

  // Does something with the stream, which may be over.
  void Use(fuzz::FuzzInput& input) {
    switch (input.Below(4)) {
      case 0: {
        const uint32_t bytes = input.Take<uint16_t>() * (1 + input.Below(4));
        stream_->Write(bytes, {}, /*attachment_buffer=*/nullptr,
                       Buffer::PlainIfAny,
                       [bytes](uint8_t* out) { std::memset(out, 'w', bytes); });
        return;
      }
      case 1:
        if (input.Below(4) == 0) stream_->EndWrites();
        return;
      default: {
        MessageStream::Message message;
        for (uint32_t left = 1 + input.Below(64);
             left > 0 &&
             stream_->Read(&message) == MessageStream::Result::kDone;
             --left) {
          fuzz::ReadAll(message.message);
          fuzz::ReadAll(message.attachment);
        }
      }
    }
  }

 private:
  MessageStream* stream_ = nullptr;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_STREAM_USER_H_
