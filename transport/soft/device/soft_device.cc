#include "transport/soft/device/soft_device.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "transport/base/check.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

// How long the exit of a process waits for each of its two threads. They need
// microseconds, unless they cannot go on: the process may have been stopped by
// a signal in the middle of a verb.
constexpr std::chrono::seconds kAcknowledgeMax(1);

// The device of the process, once it is made.
std::atomic<SoftDevice*> made{nullptr};

// Called after the destructors of all objects with static storage, for these
// may still close channels and servers.
[[gnu::destructor]] void EndThreadsAtTheEnd() {
  if (SoftDevice* const device = made.load()) device->EndThreads();
}

}  // namespace

// The first call says which clock the device has.
SoftDevice& SoftDevice::TheOne(Clock::Kind clock) {
  static SoftDevice& device = *[clock] {
    std::atexit([] { Get().AcknowledgeAll(); });
    auto* const device = new SoftDevice(clock);
    made.store(device);
    return device;
  }();
  return device;
}

SoftDevice& SoftDevice::Get() { return TheOne(Clock::Kind::kSteady); }

SoftDevice& SoftDevice::GetSimulated() {
  SoftDevice& device = TheOne(Clock::Kind::kManual);
  CHECK(device.engine().clock().manual())
      << "the device was used before it was to be simulated";
  return device;
}

SoftDevice::SoftDevice(Clock::Kind clock)
    : engine_(clock), network_(TcpPortFromEnvironment(), peer_users_) {
  // Now, because it takes long once the process has several threads, and they
  // would otherwise wait for it with locks held.
  BiasedLock::CanBeOwned();
  LinkEnd::CanBeFenced();
  device_.node_type = IBV_NODE_CA;
  device_.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device_.name, "soft");
  gids_.Refresh();
}

void SoftDevice::SetPortState(uint8_t port, PortState state) {
  const base::MutexLock lock(set_port_mutex_);
  // The port is in that state already: there is no event, and no path has
  // changed.
  if (!port_states_.Set(port, state)) return;
  port_events_.Raise(
      state == PortState::kActive ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
      port);
  queue_pairs_.ForEach([](DeviceQueuePair& qp) { qp.LookAtPath(); });
}

bool SoftDevice::IsLostByFork() {
  if (!engine_.IsLostByFork()) return false;
  const base::MutexLock lock(warning_mutex_);
  fork_warning_.Say(
      "the software device cannot be used by a child of a process that uses "
      "it: "
      "fork before the first queue pair or listener, or execute a program");
  return true;
}

// A thread that begins a copy after the fence finds the region removed. One
// that has begun before holds the lock of its queue pair, which is waited for.
void SoftDevice::WaitForDataPath() {
  BiasedLock::FenceAllThreads();
  queue_pairs_.ForEach([](DeviceQueuePair& qp) { qp.WaitForDataPath(); });
}

// The engine's thread comes first, because relays carry what queue pairs
// acknowledge there.
void SoftDevice::AcknowledgeAll() {
  if (engine_.IsLostByFork()) return;  // A child has no such threads.
  engine_.RunAndCatchUp(
      [this] {
        queue_pairs_.ForEach([](DeviceQueuePair& qp) { qp.Acknowledge(); });
      },
      kAcknowledgeMax);
  network_.CatchUp(kAcknowledgeMax);
}

void SoftDevice::EndThreads() {
  if (engine_.IsLostByFork()) return;
  engine_.EndThread(absl::FromChrono(kAcknowledgeMax));
  network_.EndThread(absl::FromChrono(kAcknowledgeMax));
}

}  // namespace verbena::soft
