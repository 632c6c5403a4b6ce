#include "transport/soft/preload/soft_objects.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "transport/soft/preload/next_provider.h"
#include "transport/soft/soft_provider.h"

namespace verbena::soft {
namespace {

ibv_device* FindSoftDevice(const transport::VerbsOps& verbs) {
  ibv_device** list = verbs.get_device_list(nullptr);
  ibv_device* device = list[0];
  verbs.free_device_list(list);
  // The name has a number, as those of the system's devices have: rxe0, mlx5_0.
  // The structure is this process's own, and nobody has seen it yet.
  std::strcpy(device->name, "soft0");
  return device;
}

ibv_device* SoftDeviceOfProcess() {
  static ibv_device* const device = [] {
    WaitForListeners();
    return FindSoftDevice(SoftProvider().verbs);
  }();
  return device;
}

bool SystemHasDevices() {
  int count = 0;
  ibv_device** list = NextProvider().verbs.get_device_list(&count);
  if (list == nullptr) return false;
  NextProvider().verbs.free_device_list(list);
  return count > 0;
}

}  // namespace

const transport::Provider& Soft() {
  SoftDeviceOfProcess();
  return SoftProvider();
}

bool IsSoft(const ibv_device* device) {
  return device == SoftDeviceOfProcess();
}

const transport::VerbsOps& VerbsOf(const ibv_device* device) {
  return IsSoft(device) ? SoftProvider().verbs : NextProvider().verbs;
}

bool SoftOnly() {
  static const bool only = [] {
    const char* value = std::getenv("VERBENA_SOFT_ONLY");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return only;
}

bool SoftConnects() {
  static const bool connects = SoftOnly() || !SystemHasDevices();
  return connects;
}

// Users get the address of the second entry. The first is the system's own
// list, which keeps the devices in it alive.
ibv_device** GetDeviceList(bool with_soft, int* count) {
  ibv_device** of_system = nullptr;
  int devices = 0;
  if (!SoftOnly()) {
    of_system = NextProvider().verbs.get_device_list(&devices);
    if (of_system == nullptr) {
      // The kernel has no support for RDMA, which soft0 does not need.
      if (!with_soft) return nullptr;
      devices = 0;
    }
  }
  auto** list = new ibv_device*[devices + 3]();
  list[0] = reinterpret_cast<ibv_device*>(of_system);
  std::copy_n(of_system, devices, list + 1);
  if (with_soft) list[1 + devices++] = SoftDeviceOfProcess();
  if (count != nullptr) *count = devices;
  return list + 1;
}

void FreeDeviceList(ibv_device** list) {
  if (list == nullptr) return;
  --list;
  if (list[0] != nullptr) {
    NextProvider().verbs.free_device_list(
        reinterpret_cast<ibv_device**>(list[0]));
  }
  delete[] list;
}

}  // namespace verbena::soft
