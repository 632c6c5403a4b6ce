// Frames that attackers send.

#ifndef VERBENA_TESTS_HOSTILE_REQUESTS_H_
#define VERBENA_TESTS_HOSTILE_REQUESTS_H_

#include <cstdint>
#include <string>

#include "proto/method_hash.h"
#include "tests/transport/raw_peer.h"

namespace verbena::hostile {

// Methods of tests/integration/test_service.proto.
inline constexpr uint64_t kEcho =
    MethodHash("verbena.end_to_end.EndToEnd/Echo");
inline constexpr uint64_t kBlock =
    MethodHash("verbena.end_to_end.EndToEnd/Block");
inline constexpr uint64_t kList =
    MethodHash("verbena.end_to_end.StreamService/List");
inline constexpr uint64_t kRecord =
    MethodHash("verbena.end_to_end.StreamService/Record");

// Returns an EchoRequest that asks for so many bytes.
std::string AskFor(uint64_t bytes);

// Returns the REQUEST of a call of `method` with `message` in it, which wants
// more credits.
std::string CallOf(const transport::RawPeer& raw, uint32_t call,
                   uint64_t method, const std::string& message);
std::string EchoOf(const transport::RawPeer& raw, uint32_t call,
                   uint64_t reply_bytes);

// Returns the REQUEST that begins a stream.
std::string StreamOf(const transport::RawPeer& raw, uint32_t call,
                     uint64_t method);

// Returns `message` with what stands before each one of a stream, which says
// that it has `bytes`.
std::string Announced(uint32_t bytes, const std::string& message);

// Returns the beginning of a REQUEST of 16,000 bytes, as far as it fits a
// frame.
std::string HalfARequest(const transport::RawPeer& raw);

// Has the server owe replies that take a send buffer each, in as many trains.
void AskInTrains(transport::RawPeer& raw, uint32_t trains);

// Bytes that follow from `seed`, which changes.
std::string Random(size_t bytes, uint32_t& seed);

}  // namespace verbena::hostile

#endif  // VERBENA_TESTS_HOSTILE_REQUESTS_H_
