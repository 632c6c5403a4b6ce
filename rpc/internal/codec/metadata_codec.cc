#include "rpc/internal/codec/metadata_codec.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"

namespace verbena::internal {
namespace {

static_assert(transport::kMaxMetadataBytes <= UINT16_MAX,
              "lengths have 16 bits");

constexpr size_t kPairHeaderBytes = 4;

// Bytes one by one: the order must not depend on the machine, nor the place be
// aligned.
uint8_t* WriteLength(size_t length, uint8_t* out) {
  out[0] = static_cast<uint8_t>(length);
  out[1] = static_cast<uint8_t>(length >> 8);
  return out + 2;
}

size_t ReadLength(const uint8_t* in) {
  return static_cast<size_t>(in[0]) | static_cast<size_t>(in[1]) << 8;
}

uint8_t* WriteBytes(absl::string_view bytes, uint8_t* out) {
  std::memcpy(out, bytes.data(), bytes.size());
  return out + bytes.size();
}

std::string ReadBytes(absl::Span<const uint8_t> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace

size_t PairBytes(size_t key_bytes, size_t value_bytes) {
  return kPairHeaderBytes + key_bytes + value_bytes;
}

uint8_t* WritePair(absl::string_view key, absl::string_view value, uint8_t* out,
                   const uint8_t* limit) {
  CHECK_LE(PairBytes(key, value), static_cast<size_t>(limit - out))
      << "bytes of room for a metadata pair";
  out = WriteLength(key.size(), out);
  out = WriteLength(value.size(), out);
  out = WriteBytes(key, out);
  return WriteBytes(value, out);
}

// Checks against the protocol's limit. The peer's own limit, which may be
// lower, is checked by the transport.
absl::StatusOr<uint32_t> MeasureMetadata(const Metadata& metadata) {
  size_t total = 0;
  for (const auto& [key, value] : metadata) {
    total += PairBytes(key, value);
  }
  if (total > transport::kMaxMetadataBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("metadata of ", total,
                     " bytes are larger than the largest value of "
                     "max_metadata_bytes and SetMaxMetadataSize, ",
                     transport::kMaxMetadataBytes));
  }
  return static_cast<uint32_t>(total);
}

size_t PairBytes(absl::string_view key, absl::string_view value) {
  return kPairHeaderBytes + key.size() + value.size();
}

std::string MetadataText(const Metadata& metadata, size_t bytes) {
  std::string text(bytes, '\0');
  uint8_t* const out = reinterpret_cast<uint8_t*>(text.data());
  WriteMetadata(metadata, out, out + bytes);
  return text;
}

uint8_t* WriteMetadata(const Metadata& metadata, uint8_t* out,
                       const uint8_t* limit) {
  for (const auto& [key, value] : metadata) {
    out = WritePair(key, value, out, limit);
  }
  return out;
}

// Believes no length of the peer before it is compared with the bytes that are
// left.
absl::Status ParseMetadata(absl::Span<const uint8_t> bytes,
                           Metadata* metadata) {
  while (!bytes.empty()) {
    if (bytes.size() < kPairHeaderBytes) {
      return absl::InternalError(
          absl::StrCat("metadata end with ", bytes.size(),
                       " bytes that are too few for a pair"));
    }
    const size_t key_bytes = ReadLength(bytes.data());
    const size_t value_bytes = ReadLength(bytes.data() + 2);
    bytes.remove_prefix(kPairHeaderBytes);
    if (bytes.size() < key_bytes + value_bytes) {
      return absl::InternalError(absl::StrCat(
          "a metadata pair of ", key_bytes, " + ", value_bytes,
          " bytes does not fit: only ", bytes.size(), " bytes are left"));
    }
    metadata->emplace(ReadBytes(bytes.subspan(0, key_bytes)),
                      ReadBytes(bytes.subspan(key_bytes, value_bytes)));
    bytes.remove_prefix(key_bytes + value_bytes);
  }
  return absl::OkStatus();
}

}  // namespace verbena::internal
