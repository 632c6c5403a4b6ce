#include "transport/streams/stream_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"

namespace verbena::transport {
namespace {

uint64_t BytesOf(const MessageHeader& header) {
  return uint64_t{header.message_bytes} + header.attachment_bytes;
}

}  // namespace

// --- The reader ---

// Looks into the bytes that the reader has, and takes more only when those are
// used up.
StreamResult StreamReader::Next(MessageHeader* header, bool* post) {
  if (read_at_ == reading_.size()) {
    reading_.Clear(kKeptBytes);
    read_at_ = 0;
    const StreamResult result = inbox_.Take(&reading_, post);
    if (result != StreamResult::kDone) return result;
  }
  std::memcpy(header, reading_.data() + read_at_, sizeof(*header));
  if (ABSL_PREDICT_TRUE(!StreamInbox::IsMark(*header))) {
    return StreamResult::kDone;
  }
  return inbox_.PeekLong(post);
}

// Returns views into reading_, which stay until the next Read(). The poller
// hears of it only when the window says so.
StreamResult StreamReader::Read(StreamMessage* message, bool* post) {
  // The next one may need the memory.
  reading_long_ = LongMessage();
  MessageHeader header;
  const StreamResult result = Next(&header, post);
  if (result != StreamResult::kDone) return result;
  const uint8_t* const begin = reading_.data() + read_at_ + sizeof(header);
  if (ABSL_PREDICT_FALSE(StreamInbox::IsMark(header))) {
    return ReadLong(message, post);
  }
  message->attachment_buffer = nullptr;
  message->message = {begin, header.message_bytes};
  message->attachment = {begin + header.message_bytes, header.attachment_bytes};
  const size_t bytes = sizeof(header) + BytesOf(header);
  read_at_ += bytes;
  *post = window_.Consume(bytes);
  return StreamResult::kDone;
}

// Copies the message if the peer may still write to it. The attachment is
// handed over as it is.
StreamResult StreamReader::ReadLong(StreamMessage* message, bool* post) {
  bool shared = false;
  reading_long_ = inbox_.TakeLong(&shared);
  read_at_ += sizeof(MessageHeader);
  // There is room for another long message, which a WINDOW or a READ
  // may follow.
  *post = true;
  if (shared && !reading_long_.message.empty()) {
    // A peer that writes there later must not change what was checked.
    const absl::Span<const uint8_t> original = reading_long_.message.span();
    reading_copy_.Clear(kKeptBytes);
    if (!reading_copy_.Reserve(original.size()) ||
        !reading_copy_.Append(original)) {
      return StreamResult::kNoMemory;
    }
    reading_long_.message.Reset();
    message->message = reading_copy_.span();
  } else {
    message->message = reading_long_.message.span();
  }
  message->attachment = reading_long_.attachment.span();
  message->attachment_buffer = &reading_long_.attachment;
  return StreamResult::kDone;
}

// --- On the poller's thread ---

// Passes whole messages on in one piece, and keeps the rest of the body as a
// part. Messages may be cut anywhere, so both may come in turn.
const char* StreamReader::OnData(absl::Span<const uint8_t> body, bool last) {
  if (last_came_) return "it sent DATA behind its last";
  if (!window_.Receive(body.size(), inbox_.reader_waits())) {
    return "it sent more of a stream than it may";
  }
  while (!body.empty() && failure_.ok()) {
    if (part_.empty()) TakeMessages(&body);
    if (!body.empty() && failure_.ok()) TakePart(&body);
  }
  // A failure is no error of the protocol: it ends the call, and not the
  // connection.
  if (!failure_.ok()) return nullptr;
  if (last && !part_.empty()) {
    return "its last DATA ended in the middle of a message";
  }
  last_came_ = last;
  // A message that ends beyond the window needs a grant of its own, as soon as
  // the reader waits for it.
  inbox_.NoteState(/*stalled=*/part_end_ > window_.granted(), last);
  return nullptr;
}

void StreamReader::LimitMessages(uint64_t bytes, const char* limit_name) {
  max_alone_bytes_ = bytes;
  alone_limit_name_ = limit_name;
  any_limit_bytes_ = std::min(max_message_bytes_, bytes);
}

bool StreamReader::Accept(const MessageHeader& header) {
  if (ABSL_PREDICT_TRUE(BytesOf(header) <= any_limit_bytes_)) return true;
  if (BytesOf(header) > max_message_bytes_) {
    return Refuse(BytesOf(header), limit_name_, max_message_bytes_);
  }
  return header.message_bytes <= max_alone_bytes_ ||
         Refuse(header.message_bytes, alone_limit_name_, max_alone_bytes_);
}

bool StreamReader::Refuse(uint64_t bytes, const char* limit_name,
                          uint64_t max_bytes) {
  failure_ = absl::ResourceExhaustedError(
      absl::StrCat("a message of ", bytes, " bytes in a stream is larger than ",
                   limit_name, ", ", max_bytes));
  return false;
}

// Finds how far whole messages go and copies them together, under one lock.
void StreamReader::TakeMessages(absl::Span<const uint8_t>* body) {
  size_t whole = 0;
  MessageHeader header;
  while (body->size() - whole >= sizeof(header)) {
    std::memcpy(&header, body->data() + whole, sizeof(header));
    if (!Accept(header)) return;
    const uint64_t bytes = sizeof(header) + BytesOf(header);
    if (bytes > body->size() - whole) break;
    whole += bytes;
  }
  if (whole == 0) return;
  if (!inbox_.Put(body->first(whole))) return FailForMemory();
  body->remove_prefix(whole);
}

// Takes first the header, alone, then as much of the rest as there is. A
// message that is complete goes to the reader.
void StreamReader::TakePart(absl::Span<const uint8_t>* body) {
  if (part_end_ == 0) {
    const size_t header_bytes =
        std::min(body->size(), sizeof(MessageHeader) - part_.size());
    if (!part_.Append(body->first(header_bytes))) return FailForMemory();
    body->remove_prefix(header_bytes);
    if (part_.size() < sizeof(MessageHeader)) return;
    MessageHeader header;
    std::memcpy(&header, part_.data(), sizeof(header));
    if (!Accept(header)) return;
    NoteLong(header);
    const uint64_t bytes = sizeof(header) + BytesOf(header);
    const uint64_t begin = window_.received() - body->size() - sizeof(header);
    part_end_ = begin + bytes;
    // No more at once than the other side may send: it has only announced it.
    if (!part_.Reserve(std::min(bytes, window_.granted() - begin))) {
      return FailForMemory();
    }
  }
  const uint64_t missing = part_end_ - (window_.received() - body->size());
  const size_t bytes =
      static_cast<size_t>(std::min<uint64_t>(body->size(), missing));
  if (!part_.Append(body->first(bytes))) return FailForMemory();
  body->remove_prefix(bytes);
  if (bytes < missing) return;
  part_end_ = 0;
  if (!inbox_.Put(&part_)) FailForMemory();
  // The next message that comes in parts takes the memory again.
  part_.Clear(kKeptBytes);
}

void StreamReader::FailForMemory() {
  failure_ = absl::ResourceExhaustedError(
      "there is no memory for the messages of a stream (see `ulimit -v`)");
}

void StreamReader::NoteLong(const MessageHeader& header) {
  if (BytesOf(header) <= kLongMessageBytes) return;
  // Shorter ones in a row make it shorter.
  lease_bytes_ =
      std::max(lease_bytes_ - lease_bytes_ / 16,
               LeaseBytes(header.message_bytes, header.attachment_bytes));
}

// Checks the message, completes it with the part that came in the frame, and
// puts it in its place. A part that is to be READ follows by StartReads().
const char* StreamReader::OnLongMessage(const MessageHeader& lengths,
                                        absl::Span<const uint8_t> body,
                                        IncomingMessage message) {
  if (last_came_) return "it sent a MESSAGE behind its last DATA";
  if (!part_.empty()) return "it sent a MESSAGE in the middle of another";
  if (inbox_.longs_told() - inbox_.longs_taken() >= kStreamLongMessages) {
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
  if (inbox_.PutLong(std::move(message))) {
    NoteLong(lengths);
  } else {
    FailForMemory();
  }
  return nullptr;
}

// Spares no credits: the peer may be waiting for this before it reads what this
// side sends.
bool StreamReader::SendWindow(FrameSender& connection, uint32_t call_id) {
  uint8_t* const out =
      connection.BeginFrame(sizeof(WindowHeader), /*spare_credits=*/0);
  if (out == nullptr) return false;
  WindowHeader header = {};
  header.frame = FrameSender::PlainHeader(FrameType::kWindow, call_id);
  header.frame.header_bytes = sizeof(header);
  header.limit = window_.Grant(AwaitedEnd());
  if (grants_longs_) header.message_limit = longs_granted_ = NextLongLimit();
  std::memcpy(out, &header, sizeof(header));
  connection.Send(sizeof(header));
  return true;
}

StreamSent StreamReader::SendLease(uint32_t call_id,
                                   LongMessageCarrier& carrier) {
  if (ABSL_PREDICT_TRUE(lease_bytes_ == 0)) return StreamSent::kNothing;
  return SentOf(carrier.SendLease(call_id, lease_bytes_,
                                  inbox_.longs_told() - inbox_.longs_taken()));
}

}  // namespace verbena::transport
