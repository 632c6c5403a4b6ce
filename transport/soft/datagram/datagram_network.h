// Datagrams between hosts: UDP.
//
// All processes of a host receive at one well-known port. One of them holds it
// and hands what comes on to the Unix sockets of the queue pairs. When it dies,
// another takes over.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_NETWORK_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_NETWORK_H_

#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_route.h"
#include "transport/soft/remote/port_role.h"

namespace verbena::soft {

// The UDP sockets of this process.
//
// Thread-safe. What comes is handled on the engine's thread. It is validated
// before it is used, and its source is taken from the packet instead of from
// what the sender wrote. Datagrams that are lost on the way are not reported.
class DatagramNetwork {
 public:
  // `engine` outlives it. With port 0 no other host is reached.
  DatagramNetwork(Engine& engine, uint16_t port);
  DatagramNetwork(const DatagramNetwork&) = delete;
  DatagramNetwork& operator=(const DatagramNetwork&) = delete;
  ~DatagramNetwork();

  uint16_t port() const { return port_; }
  // Whether this process holds the port.
  bool holds();

  // There is a receiver: a queue pair, or an identifier that other hosts ask or
  // answer. From now on this process tries to hold the port.
  void Start();

  // Sends `parts` as one datagram to another host or to a group. Never blocks.
  // Returns 0 or an errno: EAGAIN when the host's own queue is full, EFAULT
  // when a part is not readable memory.
  int Send(const DatagramRoute& route, const iovec* parts, int count);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void TryToHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenPort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnReadable(int socket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands on the datagram that is under way. False when its receiver has no
  // room yet.
  bool Forward() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForReceiver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnReceiverTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartTimer(std::chrono::nanoseconds delay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine& engine_;
  const uint16_t port_;

  base::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  PortRole role_ ABSL_GUARDED_BY(mutex_);
  // Sends to queue pairs of this host.
  base::UniqueFd forwarder_ ABSL_GUARDED_BY(mutex_);
  // The sockets for IPv4 and for IPv6: those that send, and those that are
  // bound to the port while this process holds it.
  base::UniqueFd senders_[2] ABSL_GUARDED_BY(mutex_);
  base::UniqueFd receivers_[2] ABSL_GUARDED_BY(mutex_);
  // True once the destructor runs: no timer is started any more.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool timer_runs_ ABSL_GUARDED_BY(mutex_) = false;
  // The last timer that was started; 0 before the first.
  Engine::TimerId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  // The datagram that is on its way to a queue pair, and its length, which is 0
  // while there is none.
  std::array<std::byte, kDatagramBytesMax + 1> datagram_
      ABSL_GUARDED_BY(mutex_);
  size_t length_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t destination_qp_ ABSL_GUARDED_BY(mutex_) = 0;
  // Since when the datagram waits for room; max() while none waits.
  TimePoint waiting_since_ ABSL_GUARDED_BY(mutex_) = TimePoint::max();
  // A queue pair that made others wait for too long: its datagrams are dropped
  // until it has room again. 0 for none.
  uint32_t slow_receiver_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_NETWORK_H_
