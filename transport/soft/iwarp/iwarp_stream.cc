#include "transport/soft/iwarp/iwarp_stream.h"

#include <cstdarg>
#include <cstdio>

#include "transport/base/check.h"

namespace verbena::soft {

// Message sequence numbers begin with 1.
IwarpStream::IwarpStream(LinkEnd& link, const Terms& terms)
    : link_(link),
      terms_(terms),
      send_buffer_(
          std::make_unique_for_overwrite<std::byte[]>(kSendBufferBytes)),
      receive_buffer_(
          std::make_unique_for_overwrite<std::byte[]>(kReceiveBufferBytes)) {
  out_sequence_.fill(1);
  in_sequence_.fill(1);
}

bool IwarpStream::Say(const StreamMessage& message) {
  CHECK(terms_.extended) << "only two of this device say more than iWARP";
  if (said_.full()) return false;
  said_.Push(message);
  return true;
}

bool IwarpStream::TakeMessage(StreamMessage& message) {
  if (messages_.empty()) return false;
  message = messages_.front();
  messages_.Pop();
  return true;
}

// Keeps the first thing that was wrong.
IwarpStream::Taken IwarpStream::Break(const char* format, ...) {
  if (broken_) return Taken::kBroken;
  broken_ = true;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_.data(), error_.size(), format, arguments);
  va_end(arguments);
  return Taken::kBroken;
}

// Forgets the READs from number `from` on, which will be asked for again.
void IwarpStream::Forget(Reads& reads, uint32_t from) {
  while (!reads.empty() &&
         static_cast<int32_t>(reads.back().number - from) >= 0) {
    reads.PopBack();
  }
}

}  // namespace verbena::soft
