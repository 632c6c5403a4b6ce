#include "transport/soft/soft_provider.h"

#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/verbs/verbs_table.h"

namespace verbena::soft {

const transport::Provider& SoftProvider() {
  static const transport::Provider provider = {"soft", SoftVerbsOps(),
                                               SoftCmOps(), PeerUser};
  return provider;
}

bool IsOnThisHost(const base::SocketAddress& address) {
  return IsLocalAddress(address);
}

void UseShortKeys() { SoftDevice::Get().memory().UseShortKeys(); }

void WaitForListeners() { ConnectionManager::Get().WaitForListeners(); }

}  // namespace verbena::soft
