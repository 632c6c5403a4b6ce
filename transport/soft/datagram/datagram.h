// The format of an unreliable datagram between two software devices: this
// header, and behind it the message.
//
// A sender puts both into one datagram of a Unix socket or of UDP. Nothing is
// ever split, acknowledged or sent again. Numbers of more than one byte are in
// network byte order, because UDP carries them to other hosts.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/soft/base/limits.h"

namespace verbena::soft {

inline constexpr std::array<uint8_t, 4> kDatagramMagic = {'V', 'b', 'U', 'D'};
inline constexpr uint8_t kDatagramVersion = 1;

inline constexpr uint8_t kDatagramImmediate = 1 << 0;
inline constexpr uint8_t kDatagramSolicited = 1 << 1;

// The queue pair number that means all members of a group.
inline constexpr uint32_t kMulticastQueuePair = 0xffffff;

// The header in front of the message. A header whose numbers are in the host's
// byte order has the same layout.
struct DatagramHeader {
  std::array<uint8_t, 4> magic = kDatagramMagic;
  uint8_t version = kDatagramVersion;
  uint8_t flags = 0;  // kDatagramImmediate and kDatagramSolicited.
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  std::array<uint8_t, 3> reserved = {};  // Sent as zero, ignored by receivers.
  uint32_t destination_qp = 0;
  uint32_t source_qp = 0;
  uint32_t qkey = 0;
  uint32_t flow_label = 0;
  uint32_t immediate = 0;  // As the user of verbs gave it.
  ibv_gid source = {};
  ibv_gid destination = {};
};
static_assert(sizeof(DatagramHeader) == 64);

inline constexpr size_t kDatagramBytesMax =
    sizeof(DatagramHeader) + kDatagramPayloadMax;

// Copies the header from the front of `length` bytes that anybody may have
// sent. False when they are no datagram of this version: too short, too long,
// without the magic, or with a queue pair number of more than 24 bits. The
// numbers in `header` are in the byte order of the host, but for the immediate
// data.
bool ReadDatagramHeader(const std::byte* bytes, size_t length,
                        DatagramHeader& header);

// Returns `header`, whose numbers are in the host's byte order, with its
// numbers in network byte order.
DatagramHeader ToWire(const DatagramHeader& header);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_H_
