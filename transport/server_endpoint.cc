#include "transport/server_endpoint.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/local_addresses.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"
#include "transport/polling/posted_function.h"
#include "transport/wire/server_addresses.h"

namespace verbena::transport {
namespace {

// More poller threads than any machine has cores is a mistake in a unit.
constexpr int kMaxPollers = 1024;

absl::Status Check(const ServerEndpoint::Options& options) {
  RETURN_IF_ERROR(CheckOptions(options.endpoint));
  if (options.addresses.empty()) {
    return absl::InvalidArgumentError("there is no address to listen on");
  }
  if (options.pollers < 1 || options.pollers > kMaxPollers) {
    return absl::InvalidArgumentError(
        absl::StrCat("the number of pollers must be from 1 to ", kMaxPollers,
                     ", not ", options.pollers));
  }
  return absl::OkStatus();
}

// Returns a word that no other server has.
std::string RandomWord() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

// Two providers may listen at the same address. Link-local addresses, which
// have a zone behind '%', mean nothing to other hosts.
void AddAddress(const base::SocketAddress& address, ServerAddresses* group) {
  std::vector<base::SocketAddress>& known = group->addresses;
  if (address.IsLoopback() || absl::StrContains(address.HostString(), '%') ||
      known.size() == kServerAddressesMax ||
      std::find(known.begin(), known.end(), address) != known.end()) {
    return;
  }
  known.push_back(address);
}

}  // namespace

// Starts the pollers before it listens, because a listener hands each new
// connection to one of them. If a step fails, the destructor undoes those
// before.
absl::StatusOr<std::unique_ptr<ServerEndpoint>> ServerEndpoint::Start(
    const Options& options, ServerHandler& handler) {
  RETURN_IF_ERROR(Check(options));
  std::unique_ptr<ServerEndpoint> endpoint =
      absl::WrapUnique(new ServerEndpoint());
  endpoint->wait_ = options.wait;
  endpoint->dscp_ = options.endpoint.dscp;
  RETURN_IF_ERROR(endpoint->StartPollers(options, handler));
  RETURN_IF_ERROR(endpoint->Listen(options));
  endpoint->Announce(options);
  // From here on only the first poller touches the listeners.
  for (const auto& [provider, listener] : endpoint->listeners_) {
    Poller& poller = endpoint->pollers_.front()->poller();
    PostFunction(poller, [&poller, raw = listener.get()] { poller.Add(raw); });
  }
  endpoint->accepting_ = true;
  return endpoint;
}

ServerEndpoint::~ServerEndpoint() { Shutdown(absl::InfinitePast()); }

absl::Status ServerEndpoint::StartPollers(const Options& options,
                                          ServerHandler& handler) {
  for (int i = 0; i < options.pollers; ++i) {
    ASSIGN_OR_RETURN(
        std::unique_ptr<ServerPoller> poller,
        options.wait == nullptr
            ? ServerPoller::Start(options.endpoint, handler)
            : ServerPoller::StartStepped(options.endpoint, handler));
    pollers_.push_back(std::move(poller));
  }
  return absl::OkStatus();
}

// Addresses that ListenOn() adds get the index of the option they came from:
// one option may give an address for each provider.
absl::Status ServerEndpoint::Listen(const Options& options) {
  const std::string device = WantedDevice(options.endpoint);
  // CheckDevice() knows the real providers only, not one that a test passes.
  if (options.provider == nullptr) RETURN_IF_ERROR(CheckDevice(device));
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    const size_t before = listening_.size();
    RETURN_IF_ERROR(ListenOn(
        options.addresses[i], device, options.provider,
        i < options.credentials.size() ? options.credentials[i] : nullptr));
    for (size_t j = before; j < listening_.size(); ++j) {
      listening_[j].address_index = i;
    }
  }
  return absl::OkStatus();
}

// Lets every provider listen, and succeeds if one of them does. If the address
// asks for any port, the first provider chooses it for the others.
absl::Status ServerEndpoint::ListenOn(
    const std::string& text, const std::string& device, const Provider* wanted,
    const std::shared_ptr<const ServerCredentials>& credentials) {
  ASSIGN_OR_RETURN(base::SocketAddress address,
                   base::SocketAddress::Parse(text));
  absl::Status problem;
  bool listens = false;
  const std::vector<const Provider*> providers =
      wanted != nullptr ? std::vector{wanted} : ListenProviders(device);
  for (const Provider* provider : providers) {
    absl::StatusOr<Listener*> listener = ListenerFor(*provider, device);
    absl::StatusOr<base::SocketAddress> bound =
        listener.ok() ? (*listener)->Listen(address, credentials)
                      : listener.status();
    if (!bound.ok()) {
      // An address that is no RDMA device's is served by the other provider;
      // one that is taken is an error whoever else could serve it, unless it is
      // our own iWARP device that has taken the TCP port.
      if (absl::IsAlreadyExists(bound.status()) &&
          !(listens && HasIwarpDevice())) {
        return bound.status();
      }
      problem.Update(bound.status());
      continue;
    }
    listens = true;
    // The other providers listen on the same port.
    address.set_port(bound->port());
    const bool soft = absl::string_view(provider->name) == kSoftDevice;
    listening_.push_back({bound->ToString(), bound->port(),
                          !device.empty() ? device
                          : soft          ? std::string(kSoftDevice)
                                          : "rdma"});
  }
  return listens ? absl::OkStatus() : problem;
}

absl::StatusOr<Listener*> ServerEndpoint::ListenerFor(
    const Provider& provider, const std::string& device) {
  // A provider has one listener, which takes all addresses.
  for (const auto& [known, listener] : listeners_) {
    if (known == &provider) return listener.get();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                   Listener::Create(provider, device, dscp_,
                                    [this](IncomingConnection incoming) {
                                      incoming.terms.addresses = AnnouncedFor(
                                          incoming.terms.credentials.get());
                                      NextPoller().Accept(std::move(incoming));
                                    }));
  Listener* const raw = listener.get();
  listeners_.emplace_back(&provider, std::move(listener));
  // `raw` stays valid, because the vector owns the listener by pointer.
  return raw;
}

// A wildcard stands for every address that the host has now, except on a server
// that takes clients through one RDMA device only: other addresses lead to
// others.
void ServerEndpoint::Announce(const Options& options) {
  const std::string device = WantedDevice(options.endpoint);
  const std::string word = RandomWord();
  const std::vector<base::SocketAddress> own = base::InterfaceAddresses();
  absl::flat_hash_map<const ServerCredentials*, ServerAddresses> groups;
  for (const Listening& each : listening_) {
    const size_t i = each.address_index;
    ServerAddresses& group =
        groups[i < options.credentials.size() ? options.credentials[i].get()
                                              : nullptr];
    group.server = word;
    const base::SocketAddress address =
        *base::SocketAddress::ParseNumeric(each.address);
    if (!address.IsAny()) {
      AddAddress(address, &group);
    } else if (device.empty() || device == kSoftDevice) {
      for (base::SocketAddress one : own) {
        one.set_port(address.port());
        if (one.family() == address.family()) AddAddress(one, &group);
      }
    }
  }
  for (const auto& [credentials, group] : groups) {
    if (group.addresses.empty()) continue;
    announced_.emplace_back(credentials, std::make_shared<const std::string>(
                                             EncodeServerAddresses(group)));
  }
}

std::shared_ptr<const std::string> ServerEndpoint::AnnouncedFor(
    const ServerCredentials* credentials) const {
  for (const auto& [known, addresses] : announced_) {
    if (known == credentials) return addresses;
  }
  return nullptr;
}

ServerPoller& ServerEndpoint::NextPoller() {
  const auto emptiest = std::min_element(
      pollers_.begin(), pollers_.end(), [](const auto& one, const auto& other) {
        return one->load() < other->load();
      });
  return **emptiest;
}

void ServerEndpoint::WaitFor(ServerPoller& poller) {
  if (wait_ == nullptr) return poller.Join();
  while (!poller.ended()) wait_();
}

// Every poller takes a step, even if one before it was busy.
bool ServerEndpoint::Step() {
  CHECK(wait_ != nullptr);
  bool busy = false;
  for (const auto& poller : pollers_) {
    if (!poller->ended()) busy = poller->Step() || busy;
  }
  return busy;
}

absl::Time ServerEndpoint::NextStep() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& poller : pollers_) {
    if (!poller->ended()) next = std::min(next, poller->poller().next_wake());
  }
  return next;
}

// Stops in the order in which work flows: listeners, connections, threads. A
// second caller waits on the mutex until the first call is done.
void ServerEndpoint::Shutdown(absl::Time deadline) {
  const base::MutexLock lock(shutdown_mutex_);
  if (std::exchange(shut_down_, true)) return;
  StopListening();
  // All pollers are told before the first is awaited, so that their calls end
  // side by side before the deadline.
  for (const auto& poller : pollers_) poller->Stop(deadline);
  for (const auto& poller : pollers_) WaitFor(*poller);
  {
    const base::MutexLock look_lock(look_mutex_);
    // Before the last PollOnce(): each function that Look() has posted still
    // runs, and no other is posted.
    ended_ = true;
  }
  for (const auto& poller : pollers_) {
    poller->poller().Enter();
    poller->poller().PollOnce();  // Runs tasks posted after its thread ended.
    poller->poller().Leave();
  }
  // Last, because the task of StopListening() may have run only now.
  listeners_.clear();
}

void ServerEndpoint::StopListening() {
  // Start() has failed before it gave the listeners to the poller.
  if (!accepting_) return;
  Poller& poller = pollers_.front()->poller();
  PostFunction(poller, [this, &poller] {
    for (const auto& [provider, listener] : listeners_) {
      listener->StopListening();
      poller.Remove(listener.get());
    }
  });
}

void ServerEndpoint::VisitPollers(
    absl::FunctionRef<void(const PollerCounters&, uint64_t)> visitor) const {
  for (const auto& poller : pollers_) {
    visitor(poller->poller().counters(), poller->refused());
  }
}

int ServerEndpoint::Look(const std::function<void(ServerPoller&)>& look) const {
  const base::MutexLock lock(look_mutex_);
  // A function posted now would never run.
  if (ended_) return 0;
  for (const auto& poller : pollers_) {
    PostFunction(poller->poller(), [look, raw = poller.get()] { look(*raw); });
  }
  return static_cast<int>(pollers_.size());
}

uint64_t ServerEndpoint::frame_bytes() const {
  uint64_t bytes = 0;
  for (const auto& poller : pollers_) bytes += poller->frame_bytes();
  return bytes;
}

uint64_t ServerEndpoint::bulk_bytes() const {
  uint64_t bytes = 0;
  for (const auto& poller : pollers_) bytes += poller->bulk_bytes();
  return bytes;
}

uint32_t ServerEndpoint::connection_count() const {
  uint32_t count = 0;
  for (const auto& poller : pollers_) count += poller->connection_count();
  return count;
}

}  // namespace verbena::transport
