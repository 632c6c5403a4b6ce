// Answers of a DNS server, right or wrong, byte by byte.

#ifndef VERBENA_TESTS_TESTING_DNS_PACKET_H_
#define VERBENA_TESTS_TESTING_DNS_PACKET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::testing_support {

inline constexpr uint16_t kDnsA = 1;
inline constexpr uint16_t kDnsAaaa = 28;
inline constexpr uint16_t kDnsSrv = 33;

struct DnsQuery {
  std::string name;  // In lower case, without a dot at its end.
  uint16_t type = 0;
  bool tcp = false;
  std::string packet;  // All bytes of it.
};

// Returns nothing if `packet` is not a question.
std::optional<DnsQuery> ReadDnsQuery(absl::string_view packet);

// Builds the answer to a question.
class DnsReply {
 public:
  explicit DnsReply(const DnsQuery& query);

  // Adds a record with the name of the question.
  DnsReply& Add(uint16_t type, uint32_t ttl, absl::string_view data);
  // 10.0.0.0 + `host`.
  DnsReply& A(uint32_t host, uint32_t ttl = 60);
  // fd00:: + `host`.
  DnsReply& Aaaa(uint32_t host, uint32_t ttl = 60);
  DnsReply& Srv(uint16_t priority, uint16_t weight, uint16_t port,
                absl::string_view target, uint32_t ttl = 60);

  DnsReply& Code(int code);  // 3 is NXDOMAIN.
  DnsReply& Truncated();     // "Ask again by TCP."
  DnsReply& WrongId();

  std::string Bytes() const;

 private:
  std::string bytes_;
  uint16_t answers_ = 0;
};

// Returns a name in the form of packets: labels with their lengths.
std::string DnsName(absl::string_view name);

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_DNS_PACKET_H_
