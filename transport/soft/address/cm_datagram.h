// What two connection managers say about datagrams: a question and an answer,
// each one datagram, asked again until it is answered.
//
// They take the ways of datagrams: within a host a Unix socket, named by the
// address and port of the identifier that it is for, to other hosts the UDP
// port. Numbers are in network byte order.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_CM_DATAGRAM_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_CM_DATAGRAM_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {

enum class CmDatagramType : uint8_t { kRequest = 1, kReply = 2 };

inline constexpr std::array<uint8_t, 4> kCmDatagramMagic = {'V', 'b', 'C', 'M'};
inline constexpr uint8_t kCmDatagramVersion = 1;

// What InfiniBand's connection manager leaves to the user of librdmacm.
inline constexpr uint8_t kDatagramRequestDataBytes = 180;
inline constexpr uint8_t kDatagramReplyDataBytes = 136;

// As InfiniBand numbers them.
inline constexpr uint8_t kServiceAccepted = 0;
inline constexpr uint8_t kServiceUnknown = 1;
inline constexpr uint8_t kServiceRejected = 2;

struct CmDatagram {
  std::array<uint8_t, 4> magic = kCmDatagramMagic;
  uint8_t version = kCmDatagramVersion;
  CmDatagramType type = CmDatagramType::kRequest;
  uint8_t status = kServiceAccepted;  // Replies only.
  uint8_t reserved = 0;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint32_t qp_num = 0;  // Replies only, and the key.
  uint32_t qkey = 0;
  uint32_t reserved_too = 0;
  uint64_t id = 0;  // The asker's name for the question.
  ibv_gid source = {};
  ibv_gid destination = {};
  std::array<uint8_t, kDatagramRequestDataBytes> private_data = {};
  uint32_t end = 0;

  void SetEnds(const base::SocketAddress& from, const base::SocketAddress& to);
  base::SocketAddress Source() const;
  base::SocketAddress Destination() const;
};
static_assert(sizeof(CmDatagram) == 248);

// Opens the non-blocking socket of `address`; chooses a port if that is 0: then
// `address` is changed. Returns 0 or an errno: EADDRINUSE.
int OpenCmDatagramSocket(base::SocketAddress& address, base::UniqueFd& socket);

// Hands `datagram` to whoever has its destination on this host: at that very
// address or else at a wildcard. Never blocks. Returns 0 or an errno:
// ECONNREFUSED when nobody has it.
int DeliverCmDatagram(const CmDatagram& datagram);

// Reads what anybody may have sent. False when it is no such datagram.
bool ReadCmDatagram(const std::byte* bytes, size_t length,
                    CmDatagram& datagram);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_CM_DATAGRAM_H_
