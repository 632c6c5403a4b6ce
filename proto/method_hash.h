// The number by which a method is named on the wire.
//
// A call carries this hash, not the method's name, so that dispatch is one
// look-up of a fixed-size key. Both sides compute it from the full name, hence
// it is part of the protocol: the generated code, the client and the server all
// take it from here, and changing it breaks every peer built before.
//
// Two methods may collide, if rarely. protoc-gen-verbena refuses a file in
// which they do, and a server refuses to register the second of the two.

#ifndef VERBENA_PROTO_METHOD_HASH_H_
#define VERBENA_PROTO_METHOD_HASH_H_

#include <cstdint>
#include <string_view>

namespace verbena {

// Returns the hash of `full_name`, "package.Service/Method" ("Service/Method"
// for a file without a package): FNV-1a of 64 bits, then a mix in which every
// input bit reaches every output bit, because tables index by the low bits and
// FNV-1a leaves the last characters mostly there.
constexpr uint64_t MethodHash(std::string_view full_name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char character : full_name) {
    hash ^= static_cast<unsigned char>(character);
    hash *= 0x100000001b3;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccd;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53;
  hash ^= hash >> 33;
  return hash;
}

}  // namespace verbena

#endif  // VERBENA_PROTO_METHOD_HASH_H_
