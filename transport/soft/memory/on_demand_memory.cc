#include "transport/soft/memory/on_demand_memory.h"

#include <sys/uio.h>
#include <unistd.h>

namespace verbena::soft {
namespace {

// A count that falls short means that a page is missing.
bool CopyIn(std::byte* to, const std::byte* from, size_t length) {
  const iovec local = {to, length};
  const iovec remote = {const_cast<std::byte*>(from), length};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(length);
}

bool CopyOut(std::byte* to, const std::byte* from, size_t length) {
  const iovec local = {const_cast<std::byte*>(from), length};
  const iovec remote = {to, length};
  return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(length);
}

}  // namespace

bool CanAccessOnDemand() {
  static const bool can = [] {
    std::byte from{1};
    std::byte to{0};
    return CopyIn(&to, &from, 1) && CopyOut(&to, &from, 1);
  }();
  return can;
}

bool AllowsOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                    uint64_t address, uint64_t length, unsigned int access) {
  return memory.Translate(key, OnDemandOwner(owner), address, length, access) !=
         nullptr;
}

bool ReadOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                  uint64_t address, uint64_t length, unsigned int access,
                  std::byte* to) {
  const std::byte* const from =
      memory.Translate(key, OnDemandOwner(owner), address, length, access);
  return from != nullptr && CopyIn(to, from, length);
}

bool WriteOnDemand(const MemoryTable& memory, uint32_t key, const void* owner,
                   uint64_t address, uint64_t length, unsigned int access,
                   const std::byte* from) {
  std::byte* const to =
      memory.Translate(key, OnDemandOwner(owner), address, length, access);
  return to != nullptr && CopyOut(to, from, length);
}

}  // namespace verbena::soft
