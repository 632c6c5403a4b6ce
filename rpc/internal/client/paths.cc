#include "rpc/internal/client/paths.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/client/client_poller.h"

namespace verbena::internal {
namespace {

void Note(absl::string_view text) {
  base::Log::OfProcess().Write(LogSeverity::kInfo, text);
}

}  // namespace

// Keeps the connections that are still wanted. The next Look() makes the
// others.
void Paths::Use(std::string server, const std::vector<Endpoint>& endpoints) {
  server_ = std::move(server);
  std::vector<Path> kept;
  for (const Endpoint& endpoint : endpoints) {
    const auto same = std::find_if(
        paths_.begin(), paths_.end(), [&endpoint](const Path& path) {
          return path.endpoint.address == endpoint.address &&
                 path.endpoint.provider == endpoint.provider;
        });
    if (same == paths_.end()) {
      kept.emplace_back().endpoint = endpoint;
    } else {
      kept.push_back(std::move(*same));
      paths_.erase(same);
    }
  }
  for (Path& path : paths_) Retire(path);
  paths_ = std::move(kept);
}

void Paths::Retire(Path& path) {
  if (std::exchange(path.ready, false)) --ready_;
  if (path.connection != nullptr) retire_(std::move(path.connection));
}

void Paths::Look(absl::Time now) {
  std::erase_if(paths_, [&](Path& path) { return !LookAt(path, now); });
}

bool Paths::LookAt(Path& path, absl::Time now) {
  if (path.connection == nullptr) {
    if (now < path.next_try) return true;
    path.connection = poller_.client_poller().Connect(
        *path.endpoint.provider, path.endpoint.address, options_, observer_);
    return true;
  }
  ClientConnection& connection = *path.connection;
  if (connection.connecting()) return true;
  if (!connection.usable()) {
    NoteEnd(path, now);
    return true;
  }
  if (path.ready) return true;
  // Where addresses are used twice, as those of containers are, somebody else
  // may have answered.
  if (connection.server_addresses().server != server_) {
    Note(absl::StrCat("another server answers at ", connection.peer(),
                      ", which the server has told as an address of its own"));
    Retire(path);
    return false;
  }
  path.ready = true;
  ++ready_;
  Note(absl::StrCat("connected to the same server by ", connection.peer(),
                    ", on ", connection.device_name(), ", too"));
  return true;
}

void Paths::NoteEnd(Path& path, absl::Time now) {
  path.next_try = now + retry_interval_;
  if (path.connection->failed()) {
    Note(absl::StrCat(path.connection->failure().message(),
                      "; the next attempt by this address is in ",
                      absl::FormatDuration(retry_interval_)));
  }
  Retire(path);
}

absl::Time Paths::next_try() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Path& path : paths_) {
    if (path.connection == nullptr) next = std::min(next, path.next_try);
  }
  return next;
}

Paths::ClientConnection* Paths::Least(ClientConnection* first) const {
  ClientConnection* least =
      first != nullptr && first->usable() ? first : nullptr;
  for (const Path& path : paths_) {
    if (!path.ready || !path.connection->usable()) continue;
    if (least == nullptr ||
        path.connection->open_calls() < least->open_calls()) {
      least = path.connection.get();
    }
  }
  return least == nullptr ? first : least;
}

uint32_t Paths::open_calls() const {
  uint32_t sum = 0;
  for (const Path& path : paths_) {
    if (path.ready) sum += path.connection->open_calls();
  }
  return sum;
}

std::pair<std::unique_ptr<Paths::ClientConnection>, Paths::Endpoint>
Paths::Take() {
  const auto taken = std::find_if(paths_.begin(), paths_.end(),
                                  [](const Path& path) { return path.ready; });
  CHECK(taken != paths_.end());
  --ready_;
  std::pair<std::unique_ptr<ClientConnection>, Endpoint> result = {
      std::move(taken->connection), taken->endpoint};
  paths_.erase(taken);
  return result;
}

}  // namespace verbena::internal
