// MessageStream: long messages.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/streams/message_stream.h"
#include "transport/wire/placement.h"

namespace verbena::transport {
namespace {

using base::MutexLock;
using Outcome = LongMessageCarrier::Outcome;

// Moves a part to plain memory, if there is some.
void MoveOut(const BufferPool& pool, Buffer* part) {
  if (!pool.Owns(*part)) return;
  Buffer plain = Buffer::PlainIfAny(part->size());
  if (plain.empty()) return;
  std::memcpy(plain.data(), part->data(), part->size());
  *part = std::move(plain);
}

void MoveOut(const BufferPool& pool, LongMessage* message) {
  MoveOut(pool, &message->message);
  MoveOut(pool, &message->attachment);
}

MessageStream::Sent SentOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSent:
    case Outcome::kOtherSent:
      return MessageStream::Sent::kFrame;
    case Outcome::kBlocked:
      return MessageStream::Sent::kBlocked;
    case Outcome::kWait:
    case Outcome::kInFrames:
      break;
  }
  return MessageStream::Sent::kNothing;
}

}  // namespace

// --- The reader and the writer ---

MessageStream::Result MessageStream::PeekLong() {
  bool told;
  {
    const MutexLock lock(mutex_);
    const uint64_t number = longs_taken_.load(std::memory_order_relaxed);
    const auto state = (*incoming_)[number % kStreamLongMessages].state;
    if (state == IncomingMessage::State::kHere) return Result::kDone;
    if (over_) return Result::kOver;
    reader_waits_.store(true, std::memory_order_relaxed);
    told = state == IncomingMessage::State::kTold;
  }
  // A message may be so long that it is not READ before somebody waits for it.
  if (told) Post();
  return Result::kWait;
}

MessageStream::Result MessageStream::ReadLong(Message* message) {
  const Result result = PeekLong();
  if (result != Result::kDone) return result;
  const uint64_t number = longs_taken_.load(std::memory_order_relaxed);
  IncomingMessage& next = (*incoming_)[number % kStreamLongMessages];
  bool shared;
  {
    // LeavePool() looks at it too.
    const MutexLock lock(mutex_);
    reading_long_ = std::exchange(next.parts, LongMessage());
    shared = next.shared;
  }
  const uint64_t bytes = reading_long_.bytes();
  reading_copy_.Clear(kKeptBytes);
  if (shared && !reading_long_.message.empty()) {
    if (!reading_copy_.Reserve(reading_long_.message.size()) ||
        !reading_copy_.Append(reading_long_.message.span())) {
      return Result::kNoMemory;
    }
    reading_long_.message.Reset();
    message->message = reading_copy_.span();
  } else {
    message->message = reading_long_.message.span();
  }
  message->attachment = reading_long_.attachment.span();
  message->attachment_buffer = &reading_long_.attachment;
  read_at_ += sizeof(MessageHeader);
  long_bytes_taken_.fetch_add(bytes, std::memory_order_relaxed);
  longs_taken_.store(number + 1, std::memory_order_release);
  Post();
  return Result::kDone;
}

MessageStream::Result MessageStream::WriteLong(
    uint64_t message_bytes, absl::Span<const uint8_t> attachment,
    const Buffer* attachment_buffer, Allocate allocate,
    absl::FunctionRef<void(uint8_t*)> write) {
  LongMessage written;
  if (message_bytes > 0) {
    written.message = allocate(message_bytes);
    if (written.message.empty()) return Result::kNoMemory;
    write(written.message.data());
  }
  if (attachment_buffer != nullptr) {
    written.attachment = attachment_buffer->Share();
  } else if (!attachment.empty()) {
    written.attachment = allocate(attachment.size());
    if (written.attachment.empty()) return Result::kNoMemory;
    std::memcpy(written.attachment.data(), attachment.data(),
                attachment.size());
  }
  const MutexLock lock(mutex_);
  if (over_) return Result::kOver;
  outbox_long_ = std::move(written);
  outbox_has_long_ = true;
  wrote_.store(true, std::memory_order_release);
  return Result::kDone;
}

// --- On the poller's thread ---

void MessageStream::NoteLong(const MessageHeader& header) {
  if (uint64_t{header.message_bytes} + header.attachment_bytes <=
      kLongMessageBytes) {
    return;
  }
  // Shorter ones in a row make it shorter.
  lease_bytes_ =
      std::max(lease_bytes_ - lease_bytes_ / 16,
               LeaseBytes(header.message_bytes, header.attachment_bytes));
}

const char* MessageStream::OnLongMessage(const MessageHeader& lengths,
                                         absl::Span<const uint8_t> body,
                                         IncomingMessage message) {
  if (last_came_) return "it sent a MESSAGE behind its last DATA";
  if (!part_.empty()) return "it sent a MESSAGE in the middle of another";
  if (unread_longs() >= kStreamLongMessages) {
    return "it sent more MESSAGEs of a stream than it may";
  }
  if (!Accept(lengths)) return nullptr;
  if (!body.empty()) {
    // The body holds at most one part; the place of the other one is known.
    const bool has_message =
        message.parts.message.empty() && message.message_bytes == 0;
    Buffer& part =
        has_message ? message.parts.message : message.parts.attachment;
    part = Buffer::PlainIfAny(body.size());
    if (part.empty()) {
      FailForMemory();
      return nullptr;
    }
    std::memcpy(part.data(), body.data(), body.size());
  }
  const bool here = message.state == IncomingMessage::State::kHere;
  const uint64_t bytes = message.bytes();
  bool waits;
  {
    const MutexLock lock(mutex_);
    if (incoming_ == nullptr) incoming_ = std::make_unique<Incoming>();
    (*incoming_)[longs_told_ % kStreamLongMessages] = std::move(message);
    const uint8_t* const mark = reinterpret_cast<const uint8_t*>(&kMark);
    if (!inbox_.Append({mark, sizeof(kMark)})) {
      FailForMemory();
      return nullptr;
    }
    waits = here && StopWaiting();
  }
  ++longs_told_;
  NoteLong(lengths);
  if (here) {
    ++longs_started_;
    long_bytes_started_ += bytes;
  }
  WakeReader(waits);
  return nullptr;
}

void MessageStream::StartReads() {
  while (longs_started_ < longs_told_ && is_open()) {
    IncomingMessage& next = (*incoming_)[longs_started_ % kStreamLongMessages];
    const uint64_t bytes = next.bytes();
    const uint64_t unread =
        long_bytes_started_ - long_bytes_taken_.load(std::memory_order_relaxed);
    const bool awaited = unread_longs() == longs_told_ - longs_started_ &&
                         reader_waits_.load(std::memory_order_relaxed);
    if (!awaited && unread + bytes > kMaxStreamWindowBytes) return;
    if (!line_->carrier().StartRead(call_id_, longs_started_, &next)) {
      return;
    }
    {
      const MutexLock lock(mutex_);
      next.state = IncomingMessage::State::kReading;
    }
    ++longs_started_;
    long_bytes_started_ += bytes;
  }
}

void MessageStream::OnRead(uint64_t number) {
  IncomingMessage& message = (*incoming_)[number % kStreamLongMessages];
  if (--message.reads_left > 0) return;
  bool waits;
  {
    const MutexLock lock(mutex_);
    message.state = IncomingMessage::State::kHere;
    waits = StopWaiting();
  }
  WakeReader(waits);
}

void MessageStream::LeavePool(const BufferPool& pool) {
  const MutexLock lock(mutex_);
  uint64_t number = longs_taken_.load(std::memory_order_relaxed);
  for (; number < longs_started_; ++number) {
    IncomingMessage& message = (*incoming_)[number % kStreamLongMessages];
    if (message.state == IncomingMessage::State::kHere) {
      MoveOut(pool, &message.parts);
    }
  }
  MoveOut(pool, &outbox_long_);
  MoveOut(pool, &sending_long_);
}

MessageStream::Sent MessageStream::SendLease() {
  return SentOf(
      line_->carrier().SendLease(call_id_, lease_bytes_, unread_longs()));
}

MessageStream::Sent MessageStream::SendLong() {
  // Sending it may lose the connection, and the stream with that.
  LongMessage message = std::move(sending_long_);
  has_long_ = false;
  const Outcome outcome = line_->carrier().SendLong(call_id_, &message);
  if (outcome == Outcome::kSent) return Sent::kFrame;
  sending_long_ = std::move(message);
  has_long_ = true;
  long_in_frames_ = outcome == Outcome::kInFrames;
  return SentOf(outcome);
}

void MessageStream::CopyOut(uint32_t bytes, uint8_t* out) const {
  const MessageHeader header = {
      static_cast<uint32_t>(sending_long_.message.size()),
      static_cast<uint32_t>(sending_long_.attachment.size())};
  const absl::Span<const uint8_t> parts[] = {
      {reinterpret_cast<const uint8_t*>(&header), sizeof(header)},
      sending_long_.message.span(),
      sending_long_.attachment.span()};
  uint64_t skip = sent_at_;
  uint64_t left = bytes;
  for (const absl::Span<const uint8_t> part : parts) {
    if (skip >= part.size()) {
      skip -= part.size();
      continue;
    }
    const uint64_t taken = std::min<uint64_t>(left, part.size() - skip);
    if (taken > 0) std::memcpy(out, part.data() + skip, taken);
    out += taken;
    left -= taken;
    skip = 0;
  }
}

}  // namespace verbena::transport
