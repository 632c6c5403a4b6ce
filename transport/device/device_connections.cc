#include "transport/device/device_connections.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// A connection that wants a tick so soon hears of every one until then.
constexpr absl::Duration kSoon = absl::Milliseconds(10);

// When one connection is due, so are those that would be so soon after: a PING
// may go that much earlier (see Keepalive), and each apart would wake us.
constexpr absl::Duration kTogether = absl::Seconds(1);

}  // namespace

void DeviceConnections::Add(uint32_t qp_num, DeviceConnection* connection) {
  CHECK(by_number_.emplace(qp_num, connection).second);
  ticks_.emplace(connection->tick_time_, connection);
  Touch(connection);
}

DeviceConnection* DeviceConnections::Remove(uint32_t qp_num) {
  const auto found = by_number_.find(qp_num);
  CHECK(found != by_number_.end());
  DeviceConnection* const connection = found->second;
  ticks_.erase({connection->tick_time_, connection});
  std::erase(touched_, connection);
  by_number_.erase(found);
  cached_[qp_num % kCached] = {};
  return connection;
}

DeviceConnection* DeviceConnections::FindSlow(uint32_t qp_num) {
  const auto found = by_number_.find(qp_num);
  if (found == by_number_.end()) return nullptr;
  cached_[qp_num % kCached] = {qp_num, found->second};
  return found->second;
}

// Ticks the touched connections. Those that want no tick soon are touched no
// more, and TickAt() notes when they want one.
void DeviceConnections::Tick(absl::Time now) {
  TouchDue(now);
  for (size_t i = 0; i < touched_.size();) {
    DeviceConnection* const connection = touched_[i];
    connection->OnTick(now);
    // The connection may have removed itself.
    if (i == touched_.size() || touched_[i] != connection) continue;
    const absl::Time next = connection->NextTick();
    if (connection->ticks_always() || next <= now + kSoon) {
      ++i;
      continue;
    }
    connection->touched_ = false;
    // The order does not matter, and the one from the end is ticked next.
    touched_[i] = touched_.back();
    touched_.pop_back();
    TickAt(connection, next);
  }
}

void DeviceConnections::TouchDue(absl::Time now) {
  if (ticks_.empty() || ticks_.begin()->first > now) return;
  while (!ticks_.empty() && ticks_.begin()->first <= now + kTogether) {
    DeviceConnection* const connection = ticks_.begin()->second;
    // Tick() asks it for another time, once it is no longer touched.
    TickAt(connection, absl::InfiniteFuture());
    Touch(connection);
  }
}

void DeviceConnections::TickAt(DeviceConnection* connection, absl::Time time) {
  if (time == connection->tick_time_) return;
  // The node is used again: nothing is allocated.
  auto node = ticks_.extract({connection->tick_time_, connection});
  connection->tick_time_ = node.value().first = time;
  ticks_.insert(std::move(node));
}

// Asks the touched connections themselves, because their times in ticks_ are
// old.
absl::Time DeviceConnections::NextTick() const {
  absl::Time next =
      ticks_.empty() ? absl::InfiniteFuture() : ticks_.begin()->first;
  for (const DeviceConnection* connection : touched_) {
    next = std::min(next, connection->NextTick());
  }
  return next;
}

}  // namespace verbena::transport
