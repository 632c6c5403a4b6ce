// The addresses that a server tells its clients.

#ifndef VERBENA_TRANSPORT_WIRE_SERVER_ADDRESSES_H_
#define VERBENA_TRANSPORT_WIRE_SERVER_ADDRESSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/base/limits.h"
#include "transport/base/socket_address.h"

namespace verbena::transport {

// The value of kOptionAddresses in a WELCOME: `server`, then the addresses as
// text, with commas in between.
struct ServerAddresses {
  // Chosen at random by each server when it starts: who answers with another
  // word at one of the addresses is another server. Of letters and digits.
  std::string server;
  // With their ports, at most kServerAddressesMax.
  std::vector<base::SocketAddress> addresses;
};

std::string EncodeServerAddresses(const ServerAddresses& addresses);
// INVALID_ARGUMENT with what was seen if it is malformed. Asks no name server.
absl::StatusOr<ServerAddresses> DecodeServerAddresses(absl::string_view value);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_SERVER_ADDRESSES_H_
