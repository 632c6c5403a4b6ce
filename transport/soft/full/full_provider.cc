#include "transport/soft/full/full_provider.h"

#include <rdma/rdma_cma.h>

#include <memory>

#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/datagram/datagram_device.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/full/full_verbs.h"
#include "transport/soft/services/datagram_service.h"

namespace verbena::soft {
namespace {

// Like the device it is never destroyed.
ConnectionManager& Manager() {
  static auto* const manager = [] {
    SoftDevice& device = SoftDevice::Get();
    auto* const made = new ConnectionManager(device, FullVerbsOps());
    made->AddServices(std::make_unique<DatagramService>(
        device.gids(), DatagramDevice::Get().network, *made));
    return made;
  }();
  return *manager;
}

rdma_event_channel* CreateEventChannel() {
  return CmChannel::Create(&Manager()).release();
}

// An identifier knows the manager of its channel, so the other entries are the
// same for both.
transport::CmOps FullCmOps() {
  transport::CmOps ops = SoftCmOps();
  ops.create_event_channel = CreateEventChannel;
  return ops;
}

}  // namespace

const transport::Provider& FullSoftProvider() {
  static const transport::Provider provider = {"soft", FullVerbsOps(),
                                               FullCmOps(), PeerUser};
  return provider;
}

void WaitForListeners() { Manager().WaitForListeners(); }

void UseShortKeys() { SoftDevice::Get().memory().UseShortKeys(); }

}  // namespace verbena::soft
