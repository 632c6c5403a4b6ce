#include "transport/soft/soft_device.h"

#include <cstring>
#include <random>
#include <vector>

#include "transport/soft/biased_lock.h"
#include "transport/soft/context.h"
#include "transport/soft/limits.h"
#include "transport/soft/link_port.h"
#include "transport/soft/loopback_link.h"
#include "transport/soft/queue_pair.h"

namespace verbena::soft {

SoftDevice& SoftDevice::Get() {
  static SoftDevice& device = *new SoftDevice;
  return device;
}

SoftDevice::SoftDevice() {
  // Now, because it takes long once the process has several threads, and they
  // would otherwise wait for it with locks held.
  BiasedLock::CanBeOwned();
  LinkPort::CanBeFenced();
  device_.node_type = IBV_NODE_CA;
  device_.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device_.name, "soft");
  gids_.Refresh();
}

ibv_context* SoftDevice::OpenContext() {
  std::unique_ptr<Context> context = Context::Create(*this);
  return context == nullptr ? nullptr : context.release()->handle();
}

uint32_t SoftDevice::AddQueuePair(QueuePair* qp) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (queue_pairs_.size() >= kQueuePairsMax) return 0;
  std::random_device random;
  for (;;) {
    const uint32_t number = random() & 0xffffff;
    // 0 and 1 are the management queue pairs of every port.
    if (number > 1 && queue_pairs_.try_emplace(number, qp).second) {
      return number;
    }
  }
}

void SoftDevice::RemoveQueuePair(uint32_t number) {
  DropHalfLinks(number);
  std::lock_guard<std::mutex> lock(mutex_);
  queue_pairs_.erase(number);
}

void SoftDevice::DropHalfLinks(uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(half_links_, [number](const auto& entry) {
    return entry.first.first == number || entry.first.second == number;
  });
}

std::unique_ptr<LoopbackLink> SoftDevice::Connect(QueuePair& qp,
                                                  uint32_t peer_number) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto half = half_links_.find({peer_number, qp.qp_num});
  if (half != half_links_.end()) {
    std::unique_ptr<LoopbackLink> link = std::move(half->second);
    half_links_.erase(half);
    return link;
  }
  if (peer_number == qp.qp_num || !queue_pairs_.contains(peer_number)) {
    return nullptr;
  }
  auto [mine, peers] = LoopbackLink::CreatePair();
  half_links_[{qp.qp_num, peer_number}] = std::move(peers);
  return std::move(mine);
}

void SoftDevice::WaitForDataPath() {
  std::lock_guard<std::mutex> lock(mutex_);
  BiasedLock::FenceAllThreads();
  for (const auto& [number, qp] : queue_pairs_) qp->WaitForDataPath();
}

}  // namespace verbena::soft
