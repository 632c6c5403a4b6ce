#include "tests/testing/dns_packet.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace verbena::testing_support {
namespace {

constexpr size_t kHeaderBytes = 12;

std::string Number16(uint32_t number) {
  return {static_cast<char>(number >> 8), static_cast<char>(number)};
}

std::string Number32(uint32_t number) {
  return Number16(number >> 16) + Number16(number & 0xffff);
}

}  // namespace

std::optional<DnsQuery> ReadDnsQuery(absl::string_view packet) {
  DnsQuery query;
  query.packet = std::string(packet);
  size_t at = kHeaderBytes;
  while (at < packet.size() && packet[at] != 0) {
    const size_t length = static_cast<uint8_t>(packet[at]);
    if (at + 1 + length > packet.size()) return std::nullopt;
    absl::StrAppend(&query.name, query.name.empty() ? "" : ".",
                    packet.substr(at + 1, length));
    at += 1 + length;
  }
  if (at + 3 > packet.size()) return std::nullopt;
  absl::AsciiStrToLower(&query.name);
  query.type = static_cast<uint16_t>(static_cast<uint8_t>(packet[at + 1]) << 8 |
                                     static_cast<uint8_t>(packet[at + 2]));
  return query;
}

std::string DnsName(absl::string_view name) {
  std::string bytes;
  for (const absl::string_view label :
       absl::StrSplit(name, '.', absl::SkipEmpty())) {
    absl::StrAppend(&bytes, std::string(1, static_cast<char>(label.size())),
                    label);
  }
  return bytes + '\0';
}

DnsReply::DnsReply(const DnsQuery& query) {
  bytes_ = query.packet.substr(0, 2) + Number16(0x8180) + Number16(1) +
           Number16(0) + Number32(0) + DnsName(query.name) +
           Number16(query.type) + Number16(1);
}

DnsReply& DnsReply::Add(uint16_t type, uint32_t ttl, absl::string_view data) {
  ++answers_;
  // The name is a pointer to the one in the question.
  bytes_ += Number16(0xc000 | kHeaderBytes) + Number16(type) + Number16(1) +
            Number32(ttl) + Number16(static_cast<uint32_t>(data.size())) +
            std::string(data);
  return *this;
}

DnsReply& DnsReply::A(uint32_t host, uint32_t ttl) {
  return Add(kDnsA, ttl, Number32((uint32_t{10} << 24) + host));
}

DnsReply& DnsReply::Aaaa(uint32_t host, uint32_t ttl) {
  return Add(kDnsAaaa, ttl,
             Number16(0xfd00) + std::string(10, '\0') + Number32(host));
}

DnsReply& DnsReply::Srv(uint16_t priority, uint16_t weight, uint16_t port,
                        absl::string_view target, uint32_t ttl) {
  return Add(
      kDnsSrv, ttl,
      Number16(priority) + Number16(weight) + Number16(port) + DnsName(target));
}

DnsReply& DnsReply::Code(int code) {
  bytes_[3] = static_cast<char>((bytes_[3] & 0xf0) | code);
  return *this;
}

DnsReply& DnsReply::Truncated() {
  bytes_[2] = static_cast<char>(bytes_[2] | 2);
  return *this;
}

DnsReply& DnsReply::WrongId() {
  bytes_[0] = static_cast<char>(bytes_[0] ^ 1);
  return *this;
}

std::string DnsReply::Bytes() const {
  std::string bytes = bytes_;
  bytes.replace(6, 2, Number16(answers_));
  return bytes;
}

}  // namespace verbena::testing_support
