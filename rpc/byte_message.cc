#include "rpc/byte_message.h"

#include "google/protobuf/arena.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/parse_context.h"

namespace verbena {

ByteMessage* ByteMessage::New(google::protobuf::Arena* arena) const {
  return google::protobuf::Arena::Create<ByteMessage>(arena);
}

void ByteMessage::CheckTypeAndMergeFrom(const MessageLite& other) {
  // As concatenated messages are one that is merged of both.
  bytes_ += static_cast<const ByteMessage&>(other).bytes_;
}

const char* ByteMessage::_InternalParse(
    const char* in, google::protobuf::internal::ParseContext* context) {
  // All bytes up to the limit are the message: ByteMessage has no fields.
  const int left = context->BytesUntilLimit(in);
  return left < 0 ? nullptr : context->AppendString(in, left, &bytes_);
}

uint8_t* ByteMessage::_InternalSerialize(
    uint8_t* out, google::protobuf::io::EpsCopyOutputStream* stream) const {
  return stream->WriteRaw(bytes_.data(), static_cast<int>(bytes_.size()), out);
}

}  // namespace verbena
