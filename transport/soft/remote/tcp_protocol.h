// The words of two software devices over TCP before they speak iWARP.
//
// A connection of the connection manager begins with the frames of MPA (mpa.h)
// at the listener's own port. Queue pairs that are connected manually have no
// port: the connection comes to the device's port (TcpSwitch), and begins so:
//
//   connecting side                         listening side
//   preamble                        ->      is handed to the process it is for
//   state                          <->      state, each when it is ready
//
// Then both speak iWARP. Everything here is in the byte order of x86, little
// endian.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

#include "transport/soft/base/limits.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {

// Port 4791 is that of RoCE v2, which uses it with UDP.
inline constexpr uint16_t kTcpPortDefault = 4791;

inline constexpr uint64_t kTcpMagic = 0x3230666f73627276;  // "vrbsof02"

// The numbers of two queue pairs.
struct TcpPreamble {
  uint64_t magic = kTcpMagic;
  uint32_t from = 0;
  uint32_t to = 0;

  bool IsLegal() const {
    return magic == kTcpMagic && from <= kQueuePairNumberMax &&
           to <= kQueuePairNumberMax;
  }
};
static_assert(sizeof(TcpPreamble) == 16);

// The state of a side, which it tells the other besides its packets: in 8 bytes
// before iWARP begins, later by StreamMessage::Kind::kState.
struct LinkNews {
  LinkState state = kLinkNotReady;
  uint32_t path = 0;  // PathMigration::word().

  bool operator==(const LinkNews&) const = default;
  uint64_t word() const { return uint64_t{path} << 32 | state; }
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_
