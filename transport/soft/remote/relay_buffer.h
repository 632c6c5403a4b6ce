// The memory in which a relay puts together what it sends or has received.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_BUFFER_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_BUFFER_H_

#include <cstddef>
#include <memory>

#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {

// How many bytes are sent or received by one system call: enough that the call
// costs little, and few enough to stay in the cache.
inline constexpr size_t kTcpBatchBytes = size_t{64} * 1024;
static_assert(kTcpBatchBytes >= 2 * kTcpFrameBytesMax);

// kTcpBatchBytes of memory that is not cleared. It exists only while a relay is
// at work, so that a thousand idle relays need none.
class RelayBuffer {
 public:
  RelayBuffer()
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(kTcpBatchBytes)) {}
  std::byte* data() { return bytes_.get(); }

 private:
  const std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_RELAY_BUFFER_H_
