#include "transport/wire/server_addresses.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

constexpr size_t kServerBytesMax = 32;

absl::Status Malformed(absl::string_view what, absl::string_view seen) {
  return absl::InvalidArgumentError(
      absl::StrCat("the server's addresses are malformed: ", what, " \"",
                   absl::Utf8SafeCHexEscape(seen.substr(0, 64)), "\""));
}

}  // namespace

std::string EncodeServerAddresses(const ServerAddresses& addresses) {
  std::string value = addresses.server;
  for (const base::SocketAddress& address : addresses.addresses) {
    absl::StrAppend(&value, ",", address.ToString());
  }
  return value;
}

// Bounds the number before anything is kept.
absl::StatusOr<ServerAddresses> DecodeServerAddresses(absl::string_view value) {
  if (static_cast<size_t>(std::count(value.begin(), value.end(), ',')) >
      kServerAddressesMax) {
    return Malformed("too many in", value);
  }
  ServerAddresses decoded;
  for (const absl::string_view word : absl::StrSplit(value, ',')) {
    if (word.data() == value.data()) {
      if (word.empty() || word.size() > kServerBytesMax ||
          !std::all_of(word.begin(), word.end(), absl::ascii_isalnum)) {
        return Malformed("no name of a server is", word);
      }
      decoded.server = std::string(word);
      continue;
    }
    const absl::StatusOr<base::SocketAddress> address =
        base::SocketAddress::ParseNumeric(word);
    if (!address.ok() || address->port() == 0) {
      return Malformed("no address is", word);
    }
    decoded.addresses.push_back(*address);
  }
  return decoded;
}

}  // namespace verbena::transport
