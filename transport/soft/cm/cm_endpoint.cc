#include "transport/soft/cm/cm_endpoint.h"

#include <cstring>

#include "transport/base/check.h"

namespace verbena::soft {

// The addresses are kept where users of librdmacm read them.
void CmEndpoint::SetLocal(const base::SocketAddress& address) {
  std::memcpy(&route.addr.src_storage, address.get(), address.size());
}

void CmEndpoint::SetPeer(const base::SocketAddress& address) {
  std::memcpy(&route.addr.dst_storage, address.get(), address.size());
}

void CmEndpoint::Transition(CmState to) {
  CHECK(CanTransition(state, to))
      << CmStateName(state) << " to " << CmStateName(to);
  state = to;
}

}  // namespace verbena::soft
