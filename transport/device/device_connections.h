// The connections on one device of a poller.

#ifndef VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTIONS_H_
#define VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTIONS_H_

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "transport/device/device_connection.h"

namespace verbena::transport {

// Knows the connections by the numbers of their queue pairs, and ticks those
// that were touched or whose time has come. Poller thread only.
class DeviceConnections {
 public:
  // The connection is ticked at the next tick, which asks it when it wants the
  // one after that.
  void Add(uint32_t qp_num, DeviceConnection* connection);
  // Returns the connection, which is in no list here any more.
  DeviceConnection* Remove(uint32_t qp_num);

  // Null if there is none.
  DeviceConnection* Find(uint32_t qp_num) {
    Cached& cached = cached_[qp_num % kCached];
    if (ABSL_PREDICT_TRUE(cached.qp_num == qp_num)) return cached.connection;
    return FindSlow(qp_num);
  }
  const absl::flat_hash_map<uint32_t, DeviceConnection*>& by_number() const {
    return by_number_;
  }

  // Something has happened to `connection`: its OnTick() is called at the next
  // tick. Others have theirs called no earlier than their NextTick() has asked
  // for, or almost so, and cost nothing until then, be they thousands.
  void Touch(DeviceConnection* connection) {
    if (ABSL_PREDICT_TRUE(connection->touched_)) return;
    connection->touched_ = true;
    touched_.push_back(connection);
  }
  void Tick(absl::Time now);
  absl::Time NextTick() const;

 private:
  // Connections that were used lately, by the low bits of the number.
  struct Cached {
    uint32_t qp_num = 0;
    DeviceConnection* connection = nullptr;
  };
  static constexpr uint32_t kCached = 64;

  DeviceConnection* FindSlow(uint32_t qp_num);
  // Touches those whose time has come.
  void TouchDue(absl::Time now);
  // Has `connection` ticked at `time`, if it is not touched before.
  void TickAt(DeviceConnection* connection, absl::Time time);

  absl::flat_hash_map<uint32_t, DeviceConnection*> by_number_;
  std::array<Cached, kCached> cached_;
  // All of them, by DeviceConnection::tick_time_.
  std::set<std::pair<absl::Time, DeviceConnection*>> ticks_;
  std::vector<DeviceConnection*> touched_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_DEVICE_CONNECTIONS_H_
