// A device that can register memory and nothing else, for tests.

#ifndef VERBENA_TRANSPORT_MEMORY_FAKE_REGISTRAR_H_
#define VERBENA_TRANSPORT_MEMORY_FAKE_REGISTRAR_H_

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/verbs/protection_domain.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns one protection domain. Fails registrations on demand, and refuses to
// deregister memory that is not mapped any more. Registers for one thread at a
// time.
class FakeRegistrar {
 public:
  FakeRegistrar() : pd_(*ProtectionDomain::Create(ops_, &device_)) {}

  const ProtectionDomain& pd() const { return pd_; }

  // Registrations of more bytes fail with ENOMEM.
  void set_bytes_max(size_t bytes) { device_.bytes_max = bytes; }
  int live() const { return device_.live; }  // Registrations that exist.
  int last_access() const { return device_.last_access; }

 private:
  struct Device : ibv_context {
    Device() : ibv_context() {}
    size_t bytes_max = SIZE_MAX;
    std::atomic<int> live{0};
    int last_access = 0;
    uint32_t next_key = 0x100;
  };

  static Device& DeviceOf(ibv_pd* pd) {
    return *static_cast<Device*>(pd->context);
  }

  static ibv_pd* AllocPd(ibv_context* context) {
    return new ibv_pd{.context = context, .handle = 0};
  }
  static int DeallocPd(ibv_pd* pd) {
    if (DeviceOf(pd).live != 0) return EBUSY;
    delete pd;
    return 0;
  }
  static ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access) {
    Device& device = DeviceOf(pd);
    if (length > device.bytes_max) {
      errno = ENOMEM;
      return nullptr;
    }
    ++device.live;
    device.last_access = access;
    const uint32_t key = device.next_key++;
    return new ibv_mr{.context = pd->context,
                      .pd = pd,
                      .addr = addr,
                      .length = length,
                      .handle = 0,
                      .lkey = key,
                      .rkey = key + 0x10000};
  }
  static int DeregMr(ibv_mr* mr) {
    std::vector<unsigned char> pages((mr->length + 4095) / 4096);
    if (mincore(mr->addr, mr->length, pages.data()) != 0) return errno;
    --DeviceOf(mr->pd).live;
    delete mr;
    return 0;
  }
  static const char* GetDeviceName(ibv_device*) { return "fake"; }

  static VerbsOps Ops() {
    VerbsOps ops = {};
    ops.alloc_pd = &AllocPd;
    ops.dealloc_pd = &DeallocPd;
    ops.dereg_mr = &DeregMr;
    ops.get_device_name = &GetDeviceName;
    ops.reg_mr = &RegMr;
    return ops;
  }

  const VerbsOps ops_ = Ops();
  Device device_;
  const ProtectionDomain pd_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_FAKE_REGISTRAR_H_
