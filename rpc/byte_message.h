// ByteMessage: the serialised message that generic calls send and receive.

#ifndef VERBENA_RPC_BYTE_MESSAGE_H_
#define VERBENA_RPC_BYTE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "google/protobuf/message_lite.h"

namespace verbena {

// Any message in serialised form. To the library it is a protobuf message like
// every other, whose serialised form is its bytes. So it is sent by the same
// code, and the receiver can't tell the difference.
//
// The bytes are a std::string and not an absl::Cord, because they are in one
// piece at both ends of the wire. They are copied once each way, and a Cord
// would not save that.
class ByteMessage final : public google::protobuf::MessageLite {
 public:
  ByteMessage() = default;
  explicit ByteMessage(std::string bytes) : bytes_(std::move(bytes)) {}
  ByteMessage(const ByteMessage& other) : MessageLite(), bytes_(other.bytes_) {}
  ByteMessage(ByteMessage&& other) noexcept : bytes_(std::move(other.bytes_)) {}
  ByteMessage& operator=(const ByteMessage& other) {
    bytes_ = other.bytes_;
    return *this;
  }
  ByteMessage& operator=(ByteMessage&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    return *this;
  }
  ~ByteMessage() override = default;

  const std::string& bytes() const { return bytes_; }
  std::string* mutable_bytes() { return &bytes_; }
  void set_bytes(std::string bytes) { bytes_ = std::move(bytes); }

  // The memory that it takes.
  size_t SpaceUsedLong() const { return sizeof(*this) + bytes_.capacity(); }

  // As MessageLite. It is parsed from memory, not from a stream.
  std::string GetTypeName() const override { return "verbena.ByteMessage"; }
  ByteMessage* New(google::protobuf::Arena* arena) const override;
  void Clear() override { bytes_.clear(); }
  bool IsInitialized() const override { return true; }
  void CheckTypeAndMergeFrom(const MessageLite& other) override;
  size_t ByteSizeLong() const override { return bytes_.size(); }
  int GetCachedSize() const override { return static_cast<int>(bytes_.size()); }
  const char* _InternalParse(
      const char* in,
      google::protobuf::internal::ParseContext* context) override;
  uint8_t* _InternalSerialize(
      uint8_t* out,
      google::protobuf::io::EpsCopyOutputStream* stream) const override;

 private:
  std::string bytes_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_BYTE_MESSAGE_H_
