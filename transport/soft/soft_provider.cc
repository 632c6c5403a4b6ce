#include "transport/soft/soft_provider.h"

#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/cm_ops.h"
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

}  // namespace verbena::soft
