// Datagrams between hosts: UDP.
//
// All processes of a host receive at one well-known port. One of them holds it
// and hands what comes on to the Unix sockets of the queue pairs. When it dies,
// another takes over.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_DATAGRAM_NETWORK_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_DATAGRAM_NETWORK_H_

#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "transport/base/unique_fd.h"
#include "transport/soft/address/datagram.h"
#include "transport/soft/address/datagram_route.h"
#include "transport/soft/base/engine.h"

namespace verbena::soft {

// The UDP sockets of this process.
//
// Thread-safe. What comes is handled on the engine's thread, and believed only
// in that the source address of a datagram is where the packet came from. What
// does not arrive is lost, and reported nowhere.
class DatagramNetwork {
 public:
  // `engine` outlives it. `port` 0: no other host is reached.
  DatagramNetwork(Engine& engine, uint16_t port);
  DatagramNetwork(const DatagramNetwork&) = delete;
  DatagramNetwork& operator=(const DatagramNetwork&) = delete;
  ~DatagramNetwork();

  uint16_t port() const { return port_; }
  // Whether this process holds it.
  bool holds();

  // A queue pair begins to receive, or ends. While one of this process does, it
  // tries to hold the port.
  void AddReceiver();
  void RemoveReceiver();

  // Sends `parts` as one datagram to another host or to a group. Never blocks.
  // Returns 0 or an errno: EAGAIN when the host's own queue is full, EFAULT
  // when a part is not readable memory.
  int Send(const DatagramRoute& route, const iovec* parts, int count);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // All below REQUIRE mutex_ to be held.
  void TryToHold();
  void Watch();
  void OnReadable(int socket);
  // False when its receiver has no room yet.
  bool Forward();
  void WaitForReceiver();
  void OnReceiverTimer();
  void StartTimer(std::chrono::nanoseconds delay);

  Engine& engine_;
  const uint16_t port_;

  std::mutex mutex_;
  // State below is protected by mutex_.
  base::UniqueFd senders_[2];    // Of IPv4 and IPv6.
  base::UniqueFd receivers_[2];  // Likewise, bound to the port.
  base::UniqueFd role_;          // Whoever has it holds the port.
  int receiving_queue_pairs_ = 0;
  bool ending_ = false;  // No timer is started any more.
  bool timer_runs_ = false;
  Engine::TimerId timer_ = 0;  // The last one; 0: none yet.
  // The datagram that is on its way to a queue pair.
  std::array<std::byte, kDatagramBytesMax + 1> datagram_;
  size_t length_ = 0;  // 0: there is none.
  uint32_t destination_qp_ = 0;
  TimePoint waiting_since_ = TimePoint::max();
  uint32_t slow_receiver_ = 0;  // As in DatagramQueuePair.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_DATAGRAM_NETWORK_H_
