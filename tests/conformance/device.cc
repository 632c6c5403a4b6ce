#include "tests/conformance/device.h"

#include <arpa/inet.h>

#include <cstring>

#include "tests/testing/child_process.h"
#include "tests/testing/test_device.h"
#include "transport/base/check.h"
#include "transport/device.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/full/full_provider.h"
#include "transport/soft/soft_provider.h"

namespace verbena::conformance {
namespace {

constexpr char kSoft[] = "soft";
constexpr char kSoftByTcp[] = "soft_tcp";

bool IsMapped(const ibv_gid& gid, const std::string& address) {
  ibv_gid wanted = {};
  wanted.raw[10] = wanted.raw[11] = 0xff;
  return inet_pton(AF_INET, address.c_str(), wanted.raw + 12) == 1 &&
         std::memcmp(wanted.raw, gid.raw, sizeof(gid.raw)) == 0;
}

bool IsEmpty(const ibv_gid& gid) {
  return gid.global.interface_id == 0 && gid.global.subnet_prefix == 0;
}

// The suite is about all verbs, of which RPC links a part.
const transport::Provider& Provider() {
  const transport::Provider& chosen = testing_support::TestProvider();
  return &chosen == &soft::SoftProvider() ? soft::FullSoftProvider() : chosen;
}

bool IsSoft() { return Provider().name == std::string(kSoft); }

}  // namespace

const transport::VerbsOps& Verbs() { return Provider().verbs; }

const transport::CmOps& Cm() { return Provider().cm; }

std::string DeviceName() {
  if (IsSoft()) return soft::ReachesAllPeersByNetwork() ? kSoftByTcp : kSoft;
  return transport::WantedDevice({});
}

ibv_context* OpenDevice() {
  const std::string wanted = DeviceName();
  ibv_device** const devices = Verbs().get_device_list(nullptr);
  CHECK(devices != nullptr) << "no device list";
  ibv_context* context = nullptr;
  for (ibv_device** device = devices; *device != nullptr; ++device) {
    if (IsSoft() || wanted == Verbs().get_device_name(*device)) {
      context = Verbs().open_device(*device);
      break;
    }
  }
  Verbs().free_device_list(devices);
  CHECK(context != nullptr) << "device " << wanted << " cannot be opened";
  return context;
}

transport::TestGid FindGid(ibv_context* context) {
  ibv_port_attr port = {};
  CHECK_EQ(Verbs().query_port(context, kPort, &port), 0);
  transport::TestGid first;
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    transport::TestGid found;
    found.index = static_cast<uint8_t>(i);
    if (Verbs().query_gid(context, kPort, i, &found.gid) != 0) continue;
    if (IsMapped(found.gid, testing_support::TestAddress())) return found;
    if (IsEmpty(first.gid)) first = found;
  }
  CHECK(!IsEmpty(first.gid)) << "the device has no GID";
  return first;
}

}  // namespace verbena::conformance
