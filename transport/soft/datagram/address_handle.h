// Address handles: what ibv_create_ah makes.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_ADDRESS_HANDLE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_ADDRESS_HANDLE_H_

#include <infiniband/verbs.h>

#include <memory>

#include "transport/soft/base/live_handles.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_route.h"
#include "transport/soft/device/context.h"

namespace verbena::soft {

class GidTable;

// Where datagrams go: a GID, with the source address that they show. Constant
// once made, so any thread may use it. The protection domain outlives it. Sends
// copy what they need when they are posted, so it may be destroyed while they
// are under way.
class AddressHandle final : public ibv_ah {
 public:
  // Null and EINVAL when PathIsLegal() is false.
  static std::unique_ptr<AddressHandle> Create(ProtectionDomain& pd,
                                               const ibv_ah_attr& attributes);

  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;
  ~AddressHandle();

  static AddressHandle* From(ibv_ah* ah) {
    return static_cast<AddressHandle*>(ah);
  }

  // The header with everything that the path says; the other fields are for the
  // message to fill.
  const DatagramHeader& header() const { return header_; }
  const DatagramRoute& route() const { return route_; }

 private:
  AddressHandle(ProtectionDomain& domain, const ibv_ah_attr& attributes,
                GidTable& gids, const ibv_gid_entry& source);

  DatagramHeader header_;
  DatagramRoute route_;
  const LiveHandle<ibv_ah> live_{this};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_ADDRESS_HANDLE_H_
