// Names and addresses of the servers of a simulated fleet.
//
// Hashes of names decide where calls go, so they must be the same in each run,
// while other processes of the host may have taken any address. This program
// therefore resolves the names by itself: getaddrinfo() leads from them to
// loopback addresses that no other process of the kind uses.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_NAMES_H_
#define VERBENA_TESTS_SIMULATION_FLEET_NAMES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace verbena::simulation {

inline constexpr size_t kMostServers = 200;

// The name under which clients find a server: "s017.fleet:17471".
std::string ServerName(size_t server);
// The address at which it listens: "127.3.4.17:17471".
std::string ServerAddressText(size_t server);
// The server at such an address, if it is one's.
std::optional<size_t> ServerAt(absl::string_view address);

// Returns an address of a kind that leads to no server.
std::string UselessName(int kind);

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_NAMES_H_
