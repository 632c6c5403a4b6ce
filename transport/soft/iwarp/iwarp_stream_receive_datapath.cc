// The way from the socket to whole FPDUs.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/soft/base/copy_bytes.h"
#include "transport/soft/iwarp/iwarp_stream.h"

namespace verbena::soft {
namespace {

// Payloads of more follow each other, as segments of one message do. If one has
// just come, the next call asks for only as many bytes as tell of another, so
// that its payload is received where it belongs: into the ring. That makes a
// message of 16 KiB 10 % cheaper, a system call more included.
constexpr uint32_t kLargeBytes = 8 * 1024;
constexpr size_t kBytesBefore = 2048;
constexpr size_t kBytesBehind = 512;

// Bytes behind a payload of a segment: padding and CRC.
size_t TrailerBytes(const DdpSegment& segment) {
  const uint32_t length = segment.header_bytes() + segment.payload_bytes;
  return FpduBytes(length) - kFpduLengthBytes - length;
}

}  // namespace

// Takes what waits, reads once, and takes what has come whole. While something
// waits for room nothing is read: so the other host is held back.
bool IwarpStream::Receive(int socket) {
  if (broken_) return false;
  bool moved = false;
  if (waiting_) moved = TakeAll();
  if (!waiting_ && !ended_ && !broken_ && ReadSocket(socket)) {
    moved = true;
    TakeAll();
  }
  link_.TellProgress();
  return moved;
}

// Returns whether bytes came. The rest of a large payload goes where it
// belongs, and what is behind it into the buffer.
bool IwarpStream::ReadSocket(int socket) {
  iovec pieces[2];
  size_t count = 0;
  size_t direct = 0;
  if (direct_.to != nullptr) {
    direct = direct_.segment.payload_bytes - direct_.received;
    if (direct != 0) pieces[count++] = {direct_.to + direct_.received, direct};
  }
  size_t most = kReceiveBufferBytes - receive_end_;
  if (large_) most = std::min(most, direct != 0 ? kBytesBehind : kBytesBefore);
  pieces[count++] = {receive_buffer_.get() + receive_end_, most};
  msghdr message = {};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  const ssize_t result = ::recvmsg(socket, &message, MSG_DONTWAIT);
  if (result <= 0) {
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (result < 0 && end_errno_ == 0) end_errno_ = errno;
    ended_ = true;
    return false;
  }
  const auto got = static_cast<size_t>(result);
  direct_.received += static_cast<uint32_t>(std::min(direct, got));
  receive_end_ += got - std::min(direct, got);
  return true;
}

// Takes all FPDUs that are whole. Returns whether there was one.
bool IwarpStream::TakeAll() {
  bool moved = false;
  Taken taken = Taken::kYes;
  while (taken == Taken::kYes && !stopped_) {
    taken = direct_.to != nullptr ? TakeDirect() : TakeBuffered();
    moved |= taken == Taken::kYes;
  }
  waiting_ = taken == Taken::kNoRoom;
  // The beginning of an FPDU moves to the front, so that all of it has room.
  if (receive_begin_ != 0) {
    const size_t left = receive_end_ - receive_begin_;
    std::memmove(receive_buffer_.get(), receive_buffer_.get() + receive_begin_,
                 left);
    receive_begin_ = 0;
    receive_end_ = left;
  }
  return moved;
}

IwarpStream::Taken IwarpStream::TakeBuffered() {
  const std::byte* const bytes = receive_buffer_.get() + receive_begin_;
  const size_t got = receive_end_ - receive_begin_;
  DdpSegment segment;
  if (const char* const wrong = ParseSegment(bytes, got, segment);
      wrong != nullptr) {
    if (wrong == kTooFewBytes) return Taken::kIncomplete;
    return Break("%s", wrong);
  }
  const size_t header = kFpduLengthBytes + segment.header_bytes();
  const size_t whole =
      FpduBytes(segment.header_bytes() + segment.payload_bytes);
  if (got < whole) {
    if (whole - got >= kCopyBytes) StartDirect(segment);
    return Taken::kIncomplete;
  }
  if (!checked_) {
    const size_t sum_at = whole - kCrcBytes;
    if (terms_.crc && !CrcIsRight(MpaCrc(bytes, sum_at), bytes + sum_at)) {
      return Break("an FPDU with a wrong CRC");
    }
    checked_ = true;
  }
  const Taken taken = TakeSegment(segment, bytes + header);
  if (taken == Taken::kYes) Done(segment, whole);
  return taken;
}

bool IwarpStream::CrcIsRight(uint32_t crc, const std::byte* stated) const {
  return std::memcmp(&crc, stated, kCrcBytes) == 0;
}

// If the FPDU at hand, of which much is still to come, becomes one packet, goes
// on to receive it where that packet will be. Nothing is checked yet, because
// nothing is published: without a stamp the bytes are no packet.
void IwarpStream::StartDirect(const DdpSegment& segment) {
  // If it cannot, all that has come may be read into the buffer.
  large_ = false;
  if (!CarriesData(segment.opcode) || segment.payload_bytes > kSegmentBytes) {
    return;
  }
  std::byte* const to = link_.Reserve(segment.payload_bytes);
  if (to == nullptr) return;
  large_ = segment.payload_bytes > kLargeBytes;
  const std::byte* const bytes = receive_buffer_.get() + receive_begin_;
  const size_t header = kFpduLengthBytes + segment.header_bytes();
  // At least kCopyBytes are missing, so there is nothing behind the payload.
  const size_t got = receive_end_ - receive_begin_ - header;
  CopyBytes(to, bytes + header, got);
  direct_.to = to;
  direct_.received = static_cast<uint32_t>(got);
  direct_.crc = terms_.crc ? MpaCrc(bytes, header) : 0;
  direct_.segment = segment;
  receive_begin_ = receive_end_ = 0;
}

IwarpStream::Taken IwarpStream::TakeDirect() {
  const DdpSegment& segment = direct_.segment;
  const std::byte* const trailer = receive_buffer_.get() + receive_begin_;
  const size_t trailer_bytes = TrailerBytes(segment);
  if (direct_.received < segment.payload_bytes ||
      receive_end_ - receive_begin_ < trailer_bytes) {
    return Taken::kIncomplete;
  }
  if (!checked_) {
    const size_t padding = trailer_bytes - kCrcBytes;
    if (terms_.crc &&
        !CrcIsRight(
            MpaCrc(trailer, padding,
                   MpaCrc(direct_.to, segment.payload_bytes, direct_.crc)),
            trailer + padding)) {
      return Break("an FPDU with a wrong CRC");
    }
    checked_ = true;
  }
  const Taken taken = TakeSegment(segment, direct_.to);
  if (taken == Taken::kYes) {
    direct_.to = nullptr;
    Done(segment, trailer_bytes);
  }
  return taken;
}

// The FPDU at hand, of which so many bytes are in the buffer, has been taken.
void IwarpStream::Done(const DdpSegment& segment, size_t bytes) {
  receive_begin_ += bytes;
  heard_ = true;
  checked_ = false;
  cut_ = 0;
  large_ = segment.payload_bytes > kLargeBytes &&
           segment.payload_bytes <= kSegmentBytes;
}

}  // namespace verbena::soft
