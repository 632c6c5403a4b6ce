#include "transport/soft/link/link_end.h"

#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "transport/base/check.h"

namespace verbena::soft {
namespace {

long Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

bool LinkEnd::CanBeFenced() {
  static const bool registered =
      Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return registered;
}

void LinkEnd::Attach(LinkMemory memory, LinkSide side, int socket_fd) {
  CHECK(!attached()) << "a link is attached already";
  // The counters begin at 0, as those of the peer do.
  *this = LinkEnd();
  memory_ = std::move(memory);
  // Closes the descriptor, if this side made the memory: the peer has it by
  // now, and the mapping needs none.
  memory_->TakeDescriptor();
  socket_fd_ = socket_fd;
  own_ = &memory_->words(side);
  peer_ = &memory_->words(OtherSide(side));
  out_ = memory_->ring(side);
  in_ = memory_->ring(OtherSide(side));
  secret_ = memory_->secret();
  can_be_fenced_ = CanBeFenced();
  // Before this side first sleeps. A peer that reads an older value fences
  // itself without need.
  own_->fences.store(can_be_fenced_ ? 1 : 0, std::memory_order_seq_cst);
}

std::optional<LinkMemory> LinkEnd::Detach() {
  SetState(kLinkClosed);
  std::optional<LinkMemory> memory = std::move(memory_);
  *this = LinkEnd();
  return memory;
}

LinkEnd::Watch LinkEnd::watch() const {
  return Watch{&HeaderAt(in_, own_progress_.consumed).stamp, &peer_->progress,
               secret_ + own_progress_.consumed, progress_seen_};
}

// The release keeps the state behind the packets and the path: a peer that sees
// it sees those too.
void LinkEnd::SetState(LinkState state) {
  if (!attached()) return;
  TellProgress();  // Requests that were executed are acknowledged before that.
  own_->state.store(state, std::memory_order_release);
  // A peer that sleeps wants to know, whatever it has asked to be rung for.
  published_packet_ = published_hurried_ = true;
  RingIfNeeded();
}

LinkState LinkEnd::peer_state() const {
  // Pairs with the peer's SetState(): its last packets are seen with the state.
  const uint32_t state = peer_->state.load(std::memory_order_acquire);
  return state <= kLinkStalled ? static_cast<LinkState>(state) : kLinkClosed;
}

// FenceAfterSleep() keeps the next look for work behind this store.
void LinkEnd::SetSleep(uint32_t wanted) {
  own_->sleep.store(wanted, std::memory_order_seq_cst);
}

uint32_t LinkEnd::sleep() const {
  return own_->sleep.load(std::memory_order_relaxed);
}

// The peer reads these after it has acquired a sleep word with kBellOfWaiter
// (RingSlow), and SetSleep() stores that later.
void LinkEnd::SetBell(const WaiterBell::Name& name, uint64_t number) {
  own_->bell[0].store(name.high, std::memory_order_relaxed);
  own_->bell[1].store(name.low, std::memory_order_relaxed);
  own_->bell_number.store(number, std::memory_order_relaxed);
}

// Makes every running thread of every process with a soft device pass a full
// fence: a packet that one of them published without seeing our sleep word is
// visible to us afterwards. So the publisher, who is in a hurry, needs none:
// `link_probe echo` gets 6 % fewer messages of 64 bytes through if it fences.
void LinkEnd::FenceAfterSleep() {
  FullFence();
  if (CanBeFenced()) {
    CHECK_EQ(Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED), 0);
  }
}

// Rings the bell that the peer has asked for, once. `sleep` is the peer's word;
// to change it and to ring is for whoever wins the exchange, since the peer may
// change it too. If it has changed, the doorbell is rung, at worst in vain.
void LinkEnd::RingSlow(uint32_t sleep) {
  if ((sleep & kBellOfWaiter) != 0 && !published_hurried_) {
    if ((sleep & kBellRung) != 0) return;
    if (peer_->sleep.compare_exchange_strong(sleep, sleep | kBellRung,
                                             std::memory_order_acq_rel) &&
        RingWaiter()) {
      return;
    }
  }
  RingDoorbell();
}

// Rings the doorbell unless it has been rung since the peer asked for it.
void LinkEnd::RingDoorbell() {
  if (peer_->sleep.exchange(kAwake, std::memory_order_acq_rel) != kAwake) {
    RingAlways();
  }
}

void LinkEnd::Insist() {
  // Relaxed, because RingDoorbell() looks once more.
  if ((peer_->sleep.load(std::memory_order_relaxed) & kBellOfWaiter) != 0) {
    RingDoorbell();
  }
}

// Returns false if nobody waits at the bell, or if it holds too many rings.
bool LinkEnd::RingWaiter() {
  const WaiterBell::Name name = {
      peer_->bell[0].load(std::memory_order_relaxed),
      peer_->bell[1].load(std::memory_order_relaxed)};
  return WaiterBell::RingByName(
      name, {secret_, peer_->bell_number.load(std::memory_order_relaxed)});
}

void LinkEnd::RingAlways() {
  if (!attached()) return;
  // A full socket means that the peer has bells enough to answer. A broken one
  // shows as the end of the socket, to which its watcher listens.
  static_cast<void>(send(socket_fd_, &kDoorbell, sizeof(kDoorbell),
                         MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace verbena::soft
