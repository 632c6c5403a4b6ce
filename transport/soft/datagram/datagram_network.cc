#include "transport/soft/datagram/datagram_network.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/socket_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/datagram/cm_datagram.h"
#include "transport/soft/datagram/udp_socket.h"

namespace verbena::soft {
namespace {

constexpr int kFamilies[] = {AF_INET, AF_INET6};

// How often the process whose turn it is tries to open the port while another
// program has it.
constexpr std::chrono::milliseconds kPortInterval(200);

// How often it looks whether a receiver has made room, and for how long that
// may hold up the datagrams for others.
constexpr std::chrono::milliseconds kRoomInterval(1);
constexpr std::chrono::milliseconds kReceiverPatience(100);

// Datagrams taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

}  // namespace

DatagramNetwork::DatagramNetwork(Engine& engine, uint16_t port)
    : engine_(engine),
      port_(port),
      role_(engine, absl::StrCat("udp/", port), [this] {
        const base::MutexLock lock(mutex_);
        TryToHold();
      }) {}

// First sees to it that no timer is started any more. Then waits for callbacks,
// without the mutex, which they take.
DatagramNetwork::~DatagramNetwork() {
  Engine::TimerId timer;
  {
    const base::MutexLock lock(mutex_);
    ending_ = true;
    timer = timer_;
  }
  if (timer != 0) engine_.CancelTimer(timer);
  role_.StopWaiting();
  for (const base::UniqueFd& socket : receivers_) {
    if (socket.valid()) engine_.Unwatch(socket.get());
  }
}

void DatagramNetwork::Start() {
  if (port_ == 0) return;
  const base::MutexLock lock(mutex_);
  if (!std::exchange(started_, true)) TryToHold();
}

// The socket for IPv4 is open as long as this process has the port.
bool DatagramNetwork::holds() {
  const base::MutexLock lock(mutex_);
  return receivers_[0].valid();
}

void DatagramNetwork::TryToHold() {
  if (!ending_ && role_.Take()) OpenPort();
}

// Opens the sockets of both families or none, and tries again later if another
// program has the port.
void DatagramNetwork::OpenPort() {
  int error = OpenDatagramSender(forwarder_);
  for (int i = 0; i < 2 && error == 0; ++i) {
    error = OpenUdpReceiver(base::SocketAddress::Any(kFamilies[i], port_),
                            receivers_[i]);
    // A host without IPv6 has no such address.
    if (kFamilies[i] == AF_INET6 && error == EAFNOSUPPORT) error = 0;
  }
  if (error != 0) {
    for (base::UniqueFd& socket : receivers_) socket.Reset();
    StartTimer(kPortInterval);
    return;
  }
  Watch();
}

void DatagramNetwork::Watch() {
  for (const base::UniqueFd& socket : receivers_) {
    if (!socket.valid()) continue;
    const int fd = socket.get();
    engine_.WatchWhenPossible(fd, [this, fd] {
      const base::MutexLock lock(mutex_);
      OnReadable(fd);
    });
  }
}

// The timer serves two purposes that exclude each other: to try again to open
// the port, and to wait for a receiver.
void DatagramNetwork::StartTimer(std::chrono::nanoseconds delay) {
  if (timer_runs_ || ending_) return;
  timer_runs_ = true;
  timer_ = engine_.StartTimer(delay, [this] {
    const base::MutexLock lock(mutex_);
    timer_runs_ = false;
    if (receivers_[0].valid()) {
      OnReceiverTimer();
    } else if (!ending_) {
      OpenPort();
    }
  });
}

// Takes datagrams until one has to wait for its receiver: there is room for
// one. A message of a connection manager is known by its own magic.
void DatagramNetwork::OnReadable(int socket) {
  for (int i = 0; i < kReadBatch && length_ == 0; ++i) {
    UdpArrival arrival;
    const ssize_t length =
        ReceiveUdp(socket, datagram_.data(), datagram_.size(), arrival);
    if (length < 0) return;
    CmDatagram message;
    if (ReadCmDatagram(datagram_.data(), static_cast<size_t>(length),
                       message)) {
      // The addresses of the packet replace those that the sender wrote.
      message.source = GidOf(arrival.source);
      message.destination = GidOf(arrival.destination);
      DeliverCmDatagram(message);  // If that fails, the peer asks again.
      continue;
    }
    DatagramHeader header;
    // A datagram for a group is dropped here: the sockets of MulticastGroups
    // receive it.
    if (!ReadDatagramHeader(datagram_.data(), static_cast<size_t>(length),
                            header) ||
        header.destination_qp == kMulticastQueuePair) {
      continue;
    }
    header.source = GidOf(arrival.source);
    const DatagramHeader wire = ToWire(header);
    std::memcpy(datagram_.data(), &wire, sizeof(wire));
    length_ = static_cast<size_t>(length);
    destination_qp_ = header.destination_qp;
    if (!Forward()) WaitForReceiver();
  }
}

// A receiver without room is waited for once, for kReceiverPatience; after that
// its datagrams are dropped until one gets through.
bool DatagramNetwork::Forward() {
  const iovec part = {datagram_.data(), length_};
  const int error =
      SendToQueuePair(forwarder_.get(), destination_qp_, &part, 1);
  if (error == EAGAIN && destination_qp_ != slow_receiver_) {
    const TimePoint now = engine_.clock().Now();
    if (waiting_since_ == TimePoint::max()) waiting_since_ = now;
    if (now - waiting_since_ < kReceiverPatience) return false;
    slow_receiver_ = destination_qp_;
  } else if (error == 0 && destination_qp_ == slow_receiver_) {
    slow_receiver_ = 0;
  }
  waiting_since_ = TimePoint::max();
  length_ = 0;
  return true;
}

// Datagrams that come meanwhile wait in the kernel's queue, which drops them
// when it is full.
void DatagramNetwork::WaitForReceiver() {
  for (const base::UniqueFd& socket : receivers_) {
    if (socket.valid()) engine_.Unwatch(socket.get());
  }
  StartTimer(kRoomInterval);
}

void DatagramNetwork::OnReceiverTimer() {
  if (length_ == 0) return;
  if (Forward()) {
    Watch();
  } else {
    StartTimer(kRoomInterval);
  }
}

int DatagramNetwork::Send(const DatagramRoute& route, const iovec* parts,
                          int count) {
  if (port_ == 0) return ENETUNREACH;
  const int family = route.destination.family();
  int socket = -1;
  {
    const base::MutexLock lock(mutex_);
    base::UniqueFd& sender = senders_[family == AF_INET ? 0 : 1];
    if (!sender.valid()) {
      if (const int error = OpenUdpSender(family, sender); error != 0) {
        return error;
      }
    }
    socket = sender.get();  // Not closed before this object is destroyed.
  }
  return SendUdp(socket, route, port_, parts, count);
}

}  // namespace verbena::soft
