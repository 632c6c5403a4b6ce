// Key-value pairs that travel beside a call's messages.

#ifndef VERBENA_RPC_METADATA_H_
#define VERBENA_RPC_METADATA_H_

#include <functional>
#include <map>
#include <string>

namespace verbena {

// A key may occur several times; pairs of one key keep the order in which they
// were added. Keys and values are any bytes, whatever the key ends with. The
// letters A to Z of a key become lower case when it is added, because gRPC's
// wire carries no capitals. Keys that begin with a colon are the library's.
//
// The side that gets the pairs limits their size:
// ServerBuilder::SetMaxMetadataSize() and ChannelOptions::max_metadata_bytes,
// by default 8 KiB. All keys and values of one direction count, and 4 bytes for
// each pair. Up to 2 KiB they go with the request or the reply; more take a
// frame of their own before it. Metadata is meant for identifiers and tokens;
// data belongs into messages.
using Metadata = std::multimap<std::string, std::string, std::less<>>;

}  // namespace verbena

#endif  // VERBENA_RPC_METADATA_H_
