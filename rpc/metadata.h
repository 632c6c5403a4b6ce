// Key-value pairs that travel beside a call's messages.

#ifndef VERBENA_RPC_METADATA_H_
#define VERBENA_RPC_METADATA_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace verbena {

// A key may occur several times; pairs of one key keep the order in which they
// were added. Keys and values are any bytes, but keys that begin with a colon
// are the library's.
using Metadata = std::multimap<std::string, std::string, std::less<>>;

// Most bytes that all keys and values of one direction of one call may take,
// 4 bytes for each pair included. Metadata is meant for identifiers; data
// belongs into messages.
inline constexpr size_t kMaxCallMetadataBytes = 2048;

}  // namespace verbena

#endif  // VERBENA_RPC_METADATA_H_
