// A connection, as its device sees it.

#ifndef VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTION_H_
#define VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTION_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "transport/device/memory_domain.h"

namespace verbena::transport {

// The owner of a queue pair, to which a PollerDevice reports completions. All
// functions: poller thread only.
class DeviceConnection {
 public:
  MemoryDomain& memory() const { return memory_; }
  ReceiveBuffers& receives() const { return receives_; }

  // A message came. The device posts the memory of `frame` again on return.
  virtual void OnReceive(absl::Span<const uint8_t> frame) = 0;
  // The work request `wr_id` ended with `status`.
  virtual void OnSendDone(uint64_t wr_id, ibv_wc_status status) = 0;
  // The message that OnReceive() reports next has invalidated `rkey`.
  virtual void OnInvalidated(uint32_t rkey) = 0;
  // Something that is no message used a receive.
  virtual void OnForeignReceive(ibv_wc_opcode opcode) = 0;
  // A receive ended with an error: the queue pair is lost.
  virtual void OnReceiveError(ibv_wc_status status) = 0;
  // The device reported `what`, which cannot have happened.
  virtual void OnMisreport(absl::string_view what) = 0;
  // A send buffer may be free for the connection, which waited for one.
  virtual void OnSendBuffer() = 0;
  // Hands the device all that was posted in the round, with one doorbell.
  virtual void FinishRound() = 0;

  // Called about once a millisecond while the poller runs, if the connection
  // was touched since the last call or NextTick() has come.
  virtual void OnTick(absl::Time now) = 0;
  virtual absl::Time NextTick() const = 0;
  // Whether OnTick() is called each time: a closing connection gets no
  // wake-ups, so it must be ticked.
  virtual bool ticks_always() const = 0;

 protected:
  // Both must outlive the connection.
  DeviceConnection(MemoryDomain& memory, ReceiveBuffers& receives)
      : memory_(memory), receives_(receives) {}
  ~DeviceConnection() = default;

 private:
  friend class DeviceConnections;
  friend class PollerDevice;

  MemoryDomain& memory_;
  ReceiveBuffers& receives_;
  bool in_round_ = false;  // Stands in PollerDevice::round_.
  bool touched_ = false;   // Stands in DeviceConnections::touched_.
  // Time of the next tick, unless the connection is touched before.
  absl::Time tick_time_ = absl::InfiniteFuture();
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTION_H_
