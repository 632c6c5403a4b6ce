#include "rpc/internal/client/subchannel_connections.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/client/client_poller.h"

namespace verbena::internal {
namespace {

// The time between two looks whether the last call of a connection that was
// replaced has ended.
constexpr absl::Duration kDrainInterval = absl::Milliseconds(100);

}  // namespace

SubchannelConnections::SubchannelConnections(
    SharedPoller* poller, const transport::EndpointOptions& options,
    ClientConnection::Observer* observer, std::function<void()> on_change,
    const Delays& delays, size_t max_per_address)
    : poller_(*poller),
      options_(options),
      observer_(observer),
      on_change_(std::move(on_change)),
      delays_(delays),
      max_per_address_(max_per_address),
      timer_([this](absl::Time now) { OnTime(now); }),
      paths_(
          poller, options, observer,
          [this](std::unique_ptr<ClientConnection> connection) {
            Retire(std::move(connection));
          },
          delays.recheck) {}

// Reversed, because the next endpoint is taken from the end. If RDMA has just
// failed, TCP goes first, and RDMA is left to the next recheck.
void SubchannelConnections::Begin(std::vector<Endpoint> endpoints) {
  outcome_ = {};
  outcome_.was_cheap =
      std::all_of(endpoints.begin(), endpoints.end(),
                  [](const Endpoint& each) { return each.is_cheap; });
  KeepRdma(&endpoints);
  const bool rdma_last = RdmaHasFailedLately(base::Now());
  if (rdma_last) {
    std::stable_sort(endpoints.begin(), endpoints.end(),
                     [](const Endpoint& a, const Endpoint& b) {
                       return a.is_fallback && !b.is_fallback;
                     });
  }
  std::reverse(endpoints.begin(), endpoints.end());
  attempt_ = Attempt{std::move(endpoints)};
  std::copy_if(attempt_->endpoints.begin(), attempt_->endpoints.end(),
               std::back_inserter(attempt_->rdma),
               [](const Endpoint& each) { return each.has_fallback; });
  StartNext();
}

// While a device is gone, nothing routes over RDMA, and the lookup finds TCP
// alone. RDMA is tried again nevertheless if it led to the same address before.
void SubchannelConnections::KeepRdma(std::vector<Endpoint>* endpoints) {
  const bool found =
      std::any_of(endpoints->begin(), endpoints->end(),
                  [](const Endpoint& each) { return each.has_fallback; });
  if (found || !rdma_.has_value()) return rdma_.reset();
  bool same = false;
  for (Endpoint& each : *endpoints) {
    if (!(each.address == rdma_->address)) continue;
    each.is_fallback = same = true;
  }
  if (!same) rdma_.reset();
}

void SubchannelConnections::UsePaths() {
  std::vector<Endpoint> endpoints = further_;
  endpoints.insert(endpoints.end(), extra_, endpoint());
  paths_.Use(server_, endpoints);
  paths_.Look(base::Now());
  SetTimer();
}

// Opens the next one only when all that are wanted take calls.
void SubchannelConnections::Grow() {
  if (1 + extra_ >= max_per_address_ || !paths_.all_ready()) return;
  if (server_.empty()) server_ = current()->server_addresses().server;
  ++extra_;
  next_shrink_ = base::Now() + delays_.shrink;
  UsePaths();
}

// Closes one if the others would not be more than half full.
void SubchannelConnections::Shrink(absl::Time now) {
  next_shrink_ = extra_ == 0 ? absl::InfiniteFuture() : now + delays_.shrink;
  if (extra_ == 0 || current() == nullptr ||
      open_calls() * 2 > paths_.ready() * options_.max_open_calls) {
    return;
  }
  if (--extra_ == 0) next_shrink_ = absl::InfiniteFuture();
  UsePaths();
}

// The endpoint leaves the list before it is tried. The one behind it is tried
// after a while, even if this one has not failed by then.
void SubchannelConnections::StartNext() {
  std::vector<Endpoint>& endpoints = attempt_->endpoints;
  const Endpoint endpoint = endpoints.back();
  endpoints.pop_back();
  attempt_->next_try =
      endpoints.empty() ? absl::InfiniteFuture() : base::Now() + delays_.next;
  Start(endpoint);
}

void SubchannelConnections::Start(const Endpoint& endpoint) {
  if (endpoint.has_fallback) rdma_ = endpoint;
  tries_.push_back(
      {poller_.client_poller().Connect(*endpoint.provider, endpoint.address,
                                       options_, observer_),
       endpoint});
  SetTimer();
}

SubchannelConnections::Change SubchannelConnections::Look() {
  ReapDraining();
  paths_.Look(base::Now());
  Change change = LookAtCurrent();
  if (change == Change::kNothing) change = LookAtTries();
  SetTimer();
  return change;
}

// A connection that drains goes on with its open calls until its server closes
// it. A path takes its place if there is one. The next attempt begins anew, so
// one beside it ends.
SubchannelConnections::Change SubchannelConnections::LookAtCurrent() {
  if (current() == nullptr || current()->usable()) return Change::kNothing;
  if (current()->failed()) {
    base::Log::OfProcess().Write(LogSeverity::kInfo,
                                 current()->failure().message());
    NoteFailure(current_);
  }
  Retire(std::move(current_.connection));
  if (!paths_.empty()) {
    const base::SocketAddress lost = endpoint().address;
    std::tie(current_.connection, current_.endpoint) = paths_.Take();
    if (endpoint().address == lost && extra_ > 0) {
      --extra_;
    } else {
      std::erase_if(further_, [this](const Endpoint& each) {
        return each.address == endpoint().address;
      });
      extra_ = 0;
    }
    UsePaths();
    return Change::kReplaced;
  }
  ClearPaths();
  CloseTries();
  next_recheck_ = absl::InfiniteFuture();
  return Change::kLost;
}

// The first that is ready takes calls. Those that have failed go, and the next
// one is tried in their place.
SubchannelConnections::Change SubchannelConnections::LookAtTries() {
  for (auto each = tries_.begin(); each != tries_.end();) {
    if (each->connection->usable()) {
      Try ready = std::move(*each);
      tries_.erase(each);
      const bool replaces = current() != nullptr;
      Take(std::move(ready));
      return replaces ? Change::kReplaced : Change::kConnected;
    }
    if (each->connection->connecting()) {
      ++each;
      continue;
    }
    NoteFailure(*each);
    Close(std::move(each->connection));
    each = tries_.erase(each);
  }
  if (!attempt_.has_value() || !tries_.empty()) return Change::kNothing;
  if (!attempt_->endpoints.empty()) {
    StartNext();
    return Change::kNothing;
  }
  attempt_.reset();
  return Change::kFailed;
}

// A connection over RDMA that is still being tried goes on beside one over TCP.
// All others are of no use any more.
void SubchannelConnections::Take(Try ready) {
  if (current() != nullptr) Retire(std::move(current_.connection));
  ClearPaths();
  // The endpoint over RDMA that belongs to this one, tried or not.
  if (attempt_.has_value()) {
    for (const Endpoint& each : attempt_->rdma) {
      if (each.address == ready.endpoint.address) rdma_ = each;
    }
  }
  if (rdma_.has_value() && !(rdma_->address == ready.endpoint.address)) {
    rdma_.reset();
  }
  attempt_.reset();
  current_ = std::move(ready);
  fell_back_ = current_.endpoint.is_fallback;
  if (!fell_back_) rdma_error_ = absl::OkStatus();
  std::erase_if(tries_, [this](Try& other) {
    if (fell_back_ && other.endpoint.has_fallback &&
        other.endpoint.address == current_.endpoint.address) {
      return false;
    }
    Close(std::move(other.connection));
    return true;
  });
  next_recheck_ = fell_back_ && rdma_.has_value() && tries_.empty()
                      ? base::Now() + delays_.recheck
                      : absl::InfiniteFuture();
}

void SubchannelConnections::NoteFailure(const Try& failed) {
  const ClientConnection& connection = *failed.connection;
  const absl::Status why =
      connection.failed()
          ? connection.failure()
          : absl::UnavailableError("the server is shutting down");
  outcome_.first_error.Update(why);
  // An address where somebody listened has cost another process something.
  outcome_.was_cheap = outcome_.was_cheap && connection.found_nobody();
  outcome_.server_leaves = outcome_.server_leaves || connection.server_leaves();
  if (!failed.endpoint.has_fallback || connection.server_leaves()) return;
  rdma_failed_ = base::Now();
  rdma_error_ = why;
  if (fell_back()) next_recheck_ = rdma_failed_ + delays_.recheck;
}

// Lets the open calls of a connection end.
void SubchannelConnections::Retire(
    std::unique_ptr<ClientConnection> connection) {
  if (connection->failed() || connection->connecting()) {
    return Close(std::move(connection));
  }
  draining_.push_back(std::move(connection));
}

// Closes connections that have ended, and those that were replaced when their
// last call has.
void SubchannelConnections::ReapDraining() {
  std::erase_if(draining_, [this](std::unique_ptr<ClientConnection>& drained) {
    const bool waits_for_server = drained->draining();
    if (!drained->failed() && (waits_for_server || drained->open_calls() > 0)) {
      return false;
    }
    Close(std::move(drained));
    return true;
  });
}

void SubchannelConnections::ClearPaths() {
  server_.clear();
  further_.clear();
  extra_ = 0;
  next_shrink_ = absl::InfiniteFuture();
  paths_.Clear();
}

void SubchannelConnections::OnTime(absl::Time now) {
  if (now >= next_shrink_) Shrink(now);
  if (attempt_.has_value() && now >= attempt_->next_try) StartNext();
  if (now >= next_recheck_) {
    next_recheck_ = absl::InfiniteFuture();
    if (fell_back() && rdma_.has_value() && tries_.empty()) Start(*rdma_);
  }
  on_change_();
  SetTimer();
}

void SubchannelConnections::SetTimer() {
  absl::Time due = std::min({next_recheck_, next_shrink_, paths_.next_try()});
  if (attempt_.has_value()) due = std::min(due, attempt_->next_try);
  const bool drains =
      std::any_of(draining_.begin(), draining_.end(),
                  [](const auto& each) { return !each->draining(); });
  if (drains) due = std::min(due, base::Now() + kDrainInterval);
  if (due != absl::InfiniteFuture()) poller_.LowerTimer(&timer_, due);
}

void SubchannelConnections::Close(
    std::unique_ptr<ClientConnection> connection) {
  poller_.client_poller().Close(std::move(connection));
}

void SubchannelConnections::CloseTries() {
  for (Try& each : tries_) Close(std::move(each.connection));
  tries_.clear();
}

void SubchannelConnections::Drain() {
  attempt_.reset();
  next_recheck_ = absl::InfiniteFuture();
  CloseTries();
  ClearPaths();
  if (current() != nullptr) Retire(std::move(current_.connection));
  SetTimer();
}

void SubchannelConnections::CloseAll() {
  poller_.CancelTimer(&timer_);
  attempt_.reset();
  next_recheck_ = absl::InfiniteFuture();
  if (current() != nullptr) Close(std::move(current_.connection));
  ClearPaths();
  CloseTries();
  for (auto& drained : draining_) Close(std::move(drained));
  draining_.clear();
}

}  // namespace verbena::internal
