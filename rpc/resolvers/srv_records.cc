#include "rpc/resolvers/srv_records.h"

#include <ares.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace verbena::internal {
namespace {

// The layout of RFC 1035, section 4.1.
constexpr size_t kHeaderBytes = 12;
constexpr size_t kQuestionCount = 4;
constexpr size_t kAnswerCount = 6;
constexpr size_t kQuestionBytes = 4;  // Behind the name: type and class.
constexpr size_t kTtl = 4;            // Behind type and class.
constexpr size_t kDataLength = 8;     // Behind the TTL.
constexpr size_t kRecordBytes = 10;   // Behind the name, without the data.

uint32_t Read16(absl::Span<const uint8_t> bytes, size_t at) {
  return uint32_t{bytes[at]} << 8 | bytes[at + 1];
}

// Removes `count` bytes. Returns false if there are fewer.
bool Skip(absl::Span<const uint8_t>& bytes, size_t count) {
  if (bytes.size() < count) return false;
  bytes.remove_prefix(count);
  return true;
}

// Removes a name: labels with their lengths, until an empty one or a pointer.
bool SkipName(absl::Span<const uint8_t>& bytes) {
  while (!bytes.empty()) {
    const uint8_t length = bytes.front();
    if (length == 0) return Skip(bytes, 1);
    if ((length & 0xc0) == 0xc0) return Skip(bytes, 2);
    if ((length & 0xc0) != 0 || !Skip(bytes, size_t{1} + length)) return false;
  }
  return false;
}

}  // namespace

absl::Duration LeastTtl(absl::Span<const uint8_t> packet) {
  absl::Span<const uint8_t> rest = packet;
  if (!Skip(rest, kHeaderBytes)) return absl::ZeroDuration();
  for (uint32_t i = Read16(packet, kQuestionCount); i > 0; --i) {
    if (!SkipName(rest) || !Skip(rest, kQuestionBytes)) {
      return absl::ZeroDuration();
    }
  }
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (uint32_t i = Read16(packet, kAnswerCount); i > 0; --i) {
    if (!SkipName(rest) || rest.size() < kRecordBytes) {
      return absl::ZeroDuration();
    }
    least = std::min(least, Read16(rest, kTtl) << 16 | Read16(rest, kTtl + 2));
    if (!Skip(rest, kRecordBytes + Read16(rest, kDataLength))) {
      return absl::ZeroDuration();
    }
  }
  // By RFC 2181 a TTL is below 2^31, and larger ones count as zero. So does
  // the start value, if there is no record.
  if (least > std::numeric_limits<int32_t>::max()) return absl::ZeroDuration();
  return absl::Seconds(least);
}

int ReadSrvRecords(absl::Span<const uint8_t> packet, SrvRecords& records) {
  ares_srv_reply* replies = nullptr;
  const int status = ares_parse_srv_reply(
      packet.data(), static_cast<int>(packet.size()), &replies);
  if (status != ARES_SUCCESS) return status;
  if (replies == nullptr) return ARES_ENODATA;
  uint16_t lowest = std::numeric_limits<uint16_t>::max();
  for (const ares_srv_reply* each = replies; each != nullptr;
       each = each->next) {
    lowest = std::min<uint16_t>(lowest, each->priority);
  }
  records.records.clear();
  for (const ares_srv_reply* each = replies; each != nullptr;
       each = each->next) {
    const std::string host = each->host;
    if (each->priority != lowest || host.empty() || host == ".") continue;
    records.records.push_back(
        {.host = host, .port = each->port, .weight = each->weight});
  }
  records.ttl = LeastTtl(packet);
  ares_free_data(replies);
  return ARES_SUCCESS;
}

}  // namespace verbena::internal
