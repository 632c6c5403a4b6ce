// Registered memory in pieces of one length: send and receive buffers.

#ifndef VERBENA_TRANSPORT_DEVICE_BUFFER_SLABS_H_
#define VERBENA_TRANSPORT_DEVICE_BUFFER_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Buffers of kBufferBytes by index, registered in slabs and never given back,
// and the list of those that are free. Not thread-safe. The protection domain
// must outlive it.
class BufferSlabs {
 public:
  // Buffers that are registered together.
  static constexpr uint32_t kSlabBuffers = 16;

  // Holds nothing; for assignment.
  BufferSlabs() = default;
  explicit BufferSlabs(const ProtectionDomain& pd) : pd_(&pd) {}

  // Registers one more slab, whose buffers are free.
  absl::Status Grow();

  size_t slab_count() const { return slabs_.size(); }
  size_t free_count() const { return free_.size(); }
  size_t taken_count() const { return count_ - free_.size(); }

  // Whether there is a buffer of that number.
  bool Has(uint32_t index) const { return index < count_; }

  // The free buffer that was used last. REQUIRES: free_count() > 0.
  uint32_t Take() {
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void Return(uint32_t index) { free_.push_back(index); }

  uint8_t* At(uint32_t index) const {
    return slabs_[index / kSlabBuffers].data() +
           size_t{index % kSlabBuffers} * kBufferBytes;
  }
  uint32_t lkey(uint32_t index) const {
    return slabs_[index / kSlabBuffers].lkey();
  }
  size_t registered_bytes() const {
    return slabs_.size() * kSlabBuffers * kBufferBytes;
  }

 private:
  const ProtectionDomain* pd_ = nullptr;
  uint32_t count_ = 0;  // Buffers of all slabs.
  std::vector<RegisteredMemory> slabs_;
  std::vector<uint32_t> free_;  // With room for all of them.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_BUFFER_SLABS_H_
