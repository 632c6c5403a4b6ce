#include "transport/device/buffer_slabs.h"

#include <infiniband/verbs.h>

#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::Status BufferSlabs::Grow() {
  ASSIGN_OR_RETURN(
      RegisteredMemory memory,
      RegisteredMemory::Create(*pd_, size_t{kSlabBuffers} * kBufferBytes,
                               IBV_ACCESS_LOCAL_WRITE));
  const uint32_t first = static_cast<uint32_t>(slabs_.size()) * kSlabBuffers;
  slabs_.push_back(std::move(memory));
  count_ += kSlabBuffers;
  free_.reserve(slabs_.size() * kSlabBuffers);
  for (uint32_t i = kSlabBuffers; i > 0; --i) free_.push_back(first + i - 1);
  return absl::OkStatus();
}

}  // namespace verbena::transport
