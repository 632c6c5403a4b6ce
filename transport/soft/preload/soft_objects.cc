#include "transport/soft/preload/soft_objects.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "transport/soft/full/full_provider.h"
#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/next_provider.h"

namespace verbena::soft {
namespace {

ibv_device* FindSoftDevice(const transport::VerbsOps& verbs) {
  ibv_device** list = verbs.get_device_list(nullptr);
  ibv_device* device = list[0];
  verbs.free_device_list(list);
  // The name has a number, as those of the system's devices have: rxe0, mlx5_0.
  // The structure is this process's own, and nobody has seen it yet.
  std::strcpy(device->name, "soft0");
  // There is nothing at these paths. But programs look whether they have a
  // name, and one device is told from another by it.
  std::strcpy(device->dev_name, "soft0");
  std::strcpy(device->dev_path, "/sys/class/infiniband_verbs/soft0");
  std::strcpy(device->ibdev_path, "/sys/class/infiniband/soft0");
  return device;
}

ibv_device* SoftDeviceOfProcess() {
  static ibv_device* const device = [] {
    // Programs of others count on both: see full_provider.h.
    WaitForListeners();
    UseShortKeys();
    return FindSoftDevice(FullSoftProvider().verbs);
  }();
  return device;
}

// The greatest index that the kernel has given to a device; -1 without any.
int GreatestIndexOfSystem() {
  static const decltype(&ibv_get_device_index) index_of =
      NextDefinition("ibv_get_device_index");
  int count = 0;
  ibv_device** list = NextProvider().verbs.get_device_list(&count);
  if (list == nullptr) return -1;
  int greatest = -1;
  for (int i = 0; i < count; ++i) {
    // A kernel that numbers no devices still has some.
    greatest = std::max({greatest, index_of(list[i]), 0});
  }
  NextProvider().verbs.free_device_list(list);
  return greatest;
}

}  // namespace

const transport::Provider& Soft() {
  SoftDeviceOfProcess();
  return FullSoftProvider();
}

bool IsSoft(const ibv_device* device) {
  return device == SoftDeviceOfProcess();
}

const transport::VerbsOps& VerbsOf(const ibv_device* device) {
  return IsSoft(device) ? FullSoftProvider().verbs : NextProvider().verbs;
}

const transport::VerbsOps& VerbsOf(const ibv_context* context) {
  return IsSoft(context) ? Soft().verbs : NextProvider().verbs;
}

bool SoftOnly() {
  static const bool only = [] {
    const char* value = std::getenv("VERBENA_SOFT_ONLY");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return only;
}

bool SoftConnects() {
  static const bool connects = SoftOnly() || GreatestIndexOfSystem() < 0;
  return connects;
}

int SoftDeviceIndex() {
  static const int index = SoftOnly() ? 0 : GreatestIndexOfSystem() + 1;
  return index;
}

// Makes the list as one block, as libibverbs does, because programs pass it to
// free(). Frees only the block of the system's list. The devices in it stay
// referenced by the new list, which libibverbs frees with them.
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
  // With room for soft0, and for the null at the end.
  auto** const list = static_cast<ibv_device**>(std::calloc(
      static_cast<size_t>(devices) + 2, sizeof(std::array<ibv_device*, 1>)));
  if (list != nullptr) {
    std::copy_n(of_system, devices, list);
    if (with_soft) list[devices++] = SoftDeviceOfProcess();
    if (count != nullptr) *count = devices;
  }
  std::free(of_system);
  return list;
}

void FreeDeviceList(ibv_device** list) {
  if (list == nullptr) return;
  ibv_device** end = list;
  while (*end != nullptr) ++end;
  // The device is taken out, because libibverbs would give back a reference to
  // it.
  *std::remove(list, end, SoftDeviceOfProcess()) = nullptr;
  if (SoftOnly()) {
    std::free(list);
  } else {
    NextProvider().verbs.free_device_list(list);
  }
}

}  // namespace verbena::soft
