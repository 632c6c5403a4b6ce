#include "transport/streams/stream_inbox.h"

#include <algorithm>
#include <utility>

namespace verbena::transport {

using base::MutexLock;
using State = IncomingMessage::State;

// Swaps the buffers, so that the reader takes all that has come for one look at
// the mutex.
StreamResult StreamInbox::Take(base::ByteBuffer* read, bool* post) {
  const MutexLock lock(mutex_);
  read->Swap(bytes_);
  if (!read->empty()) return StreamResult::kDone;
  if (last_came_) return StreamResult::kOver;
  // Relaxed: if the poller's thread must see it, `*post` has it look, and
  // posted_ of the stream keeps the order.
  reader_waits_.store(true, std::memory_order_relaxed);
  // The rest of a stalled message is granted only to a reader who waits.
  *post = stalled_.load(std::memory_order_relaxed);
  return StreamResult::kWait;
}

StreamResult StreamInbox::PeekLong(bool* post) {
  const MutexLock lock(mutex_);
  const State state = Place(longs_taken_.load(std::memory_order_relaxed)).state;
  if (state == State::kHere) return StreamResult::kDone;
  if (over_) return StreamResult::kOver;
  reader_waits_.store(true, std::memory_order_relaxed);
  // A message may be so long that it is not READ before somebody waits for it.
  *post = state == State::kTold;
  return StreamResult::kWait;
}

LongMessage StreamInbox::TakeLong(bool* shared) {
  // Relaxed: only the reader writes it, and this is the reader.
  const uint64_t number = longs_taken_.load(std::memory_order_relaxed);
  LongMessage taken;
  {
    // LeavePool() looks at the parts too.
    const MutexLock lock(mutex_);
    IncomingMessage& next = Place(number);
    taken = std::exchange(next.parts, LongMessage());
    *shared = next.shared;
  }
  // Relaxed: StartReads() may see it late, and then READs a message later.
  long_bytes_taken_.fetch_add(taken.bytes(), std::memory_order_relaxed);
  // Last: the poller's thread may use the place again.
  longs_taken_.store(number + 1, std::memory_order_release);
  return taken;
}

bool StreamInbox::Put(absl::Span<const uint8_t> messages) {
  const MutexLock lock(mutex_);
  if (!bytes_.Append(messages)) return false;
  StopWaiting();
  return true;
}

// A message that came in parts is handed over without a copy if the reader has
// taken all before it.
bool StreamInbox::Put(base::ByteBuffer* message) {
  const MutexLock lock(mutex_);
  if (bytes_.empty()) {
    bytes_.Swap(*message);
  } else if (!bytes_.Append(message->span())) {
    return false;
  }
  StopWaiting();
  return true;
}

// Puts the message in its place and a mark among the bytes, so that the reader
// finds it in order. The reader is woken only when the message is here.
bool StreamInbox::PutLong(IncomingMessage message) {
  const bool here = message.state == State::kHere;
  const uint64_t bytes = message.bytes();
  {
    const MutexLock lock(mutex_);
    if (longs_ == nullptr) {
      longs_ = std::make_unique<decltype(longs_)::element_type>();
    }
    Place(longs_told_) = std::move(message);
    const uint8_t* const mark = reinterpret_cast<const uint8_t*>(&kMark);
    if (!bytes_.Append({mark, sizeof(kMark)})) return false;
    if (here) StopWaiting();
  }
  ++longs_told_;
  if (here) {
    ++longs_started_;
    long_bytes_started_ += bytes;
  }
  return true;
}

// READs long messages in their order, up to kMaxStreamWindowBytes ahead of the
// reader. The first that has to wait ends the walk.
void StreamInbox::StartReads(uint32_t call_id, LongMessageCarrier& carrier) {
  while (longs_started_ < longs_told_) {
    IncomingMessage& next = Place(longs_started_);
    const uint64_t bytes = next.bytes();
    const uint64_t unread =
        long_bytes_started_ - long_bytes_taken_.load(std::memory_order_relaxed);
    // A message that the reader waits for is READ however long it is, or the
    // stream would stand still.
    const bool awaited = longs_taken() == longs_started_ && reader_waits();
    if (!awaited && unread + bytes > kMaxStreamWindowBytes) return;
    // Without the mutex: until the state changes, the place is the poller's.
    if (!carrier.StartRead(call_id, longs_started_, &next)) return;
    {
      const MutexLock lock(mutex_);
      next.state = State::kReading;
    }
    ++longs_started_;
    long_bytes_started_ += bytes;
  }
}

void StreamInbox::OnRead(uint64_t number) {
  IncomingMessage& message = Place(number);
  // Message and attachment are READ apart, and the reader gets both.
  if (--message.reads_left > 0) return;
  const MutexLock lock(mutex_);
  message.state = State::kHere;
  StopWaiting();
}

void StreamInbox::NoteState(bool stalled, bool last) {
  // Only the poller's thread writes stalled_, so no mutex is needed to find
  // that nothing has changed.
  if (!last && stalled == stalled_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  // The reader looks at it after it has said that it waits.
  stalled_.store(stalled, std::memory_order_relaxed);
  if (!last) return;
  last_came_ = true;
  StopWaiting();
}

void StreamInbox::End() {
  const MutexLock lock(mutex_);
  over_ = last_came_ = true;
  StopWaiting();
}

void StreamInbox::LeavePool(const BufferPool& pool) {
  const MutexLock lock(mutex_);
  uint64_t number = longs_taken_.load(std::memory_order_relaxed);
  for (; number < longs_started_; ++number) {
    IncomingMessage& message = Place(number);
    // A device may write to the others, which must stay where they are.
    if (message.state == State::kHere) message.parts.LeavePool(pool);
  }
}

}  // namespace verbena::transport
