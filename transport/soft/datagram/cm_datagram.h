// The messages of two connection managers in the port space UDP: a question and
// an answer. Each is one datagram. The question is asked again until the answer
// has come.
//
// Within a host, a message goes to a Unix socket that is named by the address
// and port of the identifier that the message is for. To another host, it goes
// to the UDP port of the device (datagram_network.h). Numbers are in network
// byte order.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_CM_DATAGRAM_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_CM_DATAGRAM_H_

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

// How much private data fits a question and an answer: what InfiniBand's
// connection manager leaves to the user of librdmacm.
inline constexpr uint8_t kDatagramRequestDataBytes = 180;
inline constexpr uint8_t kDatagramReplyDataBytes = 136;

// The outcomes of a question, as InfiniBand numbers them.
inline constexpr uint8_t kServiceAccepted = 0;
inline constexpr uint8_t kServiceUnknown = 1;
inline constexpr uint8_t kServiceRejected = 2;

// A question or an answer.
struct CmDatagram {
  std::array<uint8_t, 4> magic = kCmDatagramMagic;
  uint8_t version = kCmDatagramVersion;
  CmDatagramType type = CmDatagramType::kRequest;
  uint8_t status = kServiceAccepted;  // Only replies have one.
  uint8_t reserved = 0;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  // Only in replies: the queue pair of the service and its key.
  uint32_t qp_num = 0;
  uint32_t qkey = 0;
  uint32_t reserved_too = 0;
  // The asker's number for the question, which the answer repeats.
  uint64_t id = 0;
  ibv_gid source = {};
  ibv_gid destination = {};
  std::array<uint8_t, kDatagramRequestDataBytes> private_data = {};
  uint32_t end = 0;  // Pads the message, so that it has no hidden bytes.

  void SetEnds(const base::SocketAddress& from, const base::SocketAddress& to);
  base::SocketAddress Source() const;
  base::SocketAddress Destination() const;
};
static_assert(sizeof(CmDatagram) == 248);

// Opens the non-blocking socket of `address`. Chooses a port if that of
// `address` is 0, and then changes `address`. Returns 0 or an errno: EADDRINUSE
// when another socket has the address.
int OpenCmDatagramSocket(base::SocketAddress& address, base::UniqueFd& socket);

// Hands `datagram` to the identifier of this host that has its destination: at
// that very address or else at a wildcard. Never blocks. Returns 0 or an errno:
// ECONNREFUSED when there is none.
int DeliverCmDatagram(const CmDatagram& datagram);

// Reads bytes that anybody may have sent. False when they are no such datagram.
bool ReadCmDatagram(const std::byte* bytes, size_t length,
                    CmDatagram& datagram);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_CM_DATAGRAM_H_
