// The messages of a call that do not stream, and the memory that they take.

#ifndef VERBENA_RPC_INTERNAL_SERVER_KEPT_MESSAGES_H_
#define VERBENA_RPC_INTERNAL_SERVER_KEPT_MESSAGES_H_

#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"
#include "google/protobuf/message_lite.h"
#include "rpc/internal/server/handler_pace.h"
#include "rpc/support/method.h"
#include "transport/base/cycle_counter.h"

namespace verbena::internal {

// Messages of more bytes may take long to parse. Messages of the library that
// took more memory are not kept.
inline constexpr uint64_t kLargeBytes = 64 << 10;
// Longer messages are never parsed by a poller, however short the method has
// turned out to be: the next one may have many more fields.
inline constexpr uint64_t kPollerParsesBytes = 2 << 20;

// Whether a worker should parse a message of so many bytes, because the poller
// would serve nobody for too long. `pace` is that of parsing 64 KiB.
inline bool ParsesOnWorker(uint64_t bytes, const HandlerPace* pace) {
  return bytes > kLargeBytes &&
         (bytes > kPollerParsesBytes || !pace->is_short());
}

// Measures how fast so many bytes are parsed, for ParsesOnWorker().
class ParseTimer {
 public:
  ParseTimer(HandlerPace* pace, uint64_t bytes)
      : pace_(bytes > kLargeBytes && bytes <= kPollerParsesBytes ? pace
                                                                 : nullptr),
        bytes_(bytes),
        start_(pace_ == nullptr ? 0 : base::CycleNow()) {}
  ParseTimer(const ParseTimer&) = delete;
  ParseTimer& operator=(const ParseTimer&) = delete;
  ~ParseTimer() {
    if (pace_ == nullptr) return;
    const uint64_t now = base::CycleNow();
    // As if each message had so many bytes: one of a few large fields is
    // quick, because it is copied, and one of many small fields is not.
    pace_->NoteTime((now - start_) * kLargeBytes / bytes_, now);
  }

 private:
  HandlerPace* const pace_;  // Null if nothing is measured.
  const uint64_t bytes_;
  const uint64_t start_;
};

// Keeps the messages of one method from call to call, because they keep their
// memory.
class KeptMessages {
 public:
  explicit KeptMessages(const Method* method)
      : messages_(method->NewMessages()),
        request_(messages_ == nullptr ? nullptr : messages_->request()),
        response_(messages_ == nullptr ? nullptr : messages_->response()) {}

  CallMessages* all() const { return messages_.get(); }
  // These two are null if they stream.
  google::protobuf::MessageLite* request() const { return request_; }
  google::protobuf::MessageLite* response() const { return response_; }

  // Another call begins.
  void Reset() { is_large_ = false; }
  // A message of so many bytes was parsed, or serialised.
  void NoteBytes(uint64_t bytes) {
    is_large_ = is_large_ || bytes > kLargeBytes;
    unmeasured_bytes_ += bytes;
  }
  // The messages may take much memory, though nothing was serialised.
  void NoteUnknown() { unmeasured_bytes_ += kMeasureBytes; }

  // Whether the messages take so much memory that they are better given back.
  // Ignores growth by a few requests of less than a KiB, because to measure it
  // would take longer than such a call. At the end of a call, once.
  bool HoldTooMuch() {
    if (ABSL_PREDICT_FALSE(is_large_)) return true;
    if (ABSL_PREDICT_TRUE(unmeasured_bytes_ < kMeasureBytes)) return false;
    unmeasured_bytes_ = 0;
    is_large_ = messages_->SpaceUsed() > kLargeBytes;
    return is_large_;
  }

 private:
  // Bytes after which the memory is measured. Two of them may be a field that
  // takes hundreds in memory; to measure each small call would make it slower
  // by a tenth.
  static constexpr uint64_t kMeasureBytes = 1 << 10;

  const std::unique_ptr<CallMessages> messages_;  // Null if all stream.
  google::protobuf::MessageLite* const request_;  // These two are messages_'.
  google::protobuf::MessageLite* const response_;
  bool is_large_ = false;
  uint64_t unmeasured_bytes_ = 0;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_KEPT_MESSAGES_H_
