#include "rpc/resolvers/dns_worker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// A look has a socket or a few. Most processes may have 1,024 descriptors.
constexpr size_t kLooksAtOnce = 256;

// Longer than this the thread does not sleep, so that an int holds the time.
constexpr absl::Duration kLongestSleep = absl::Hours(1);

// Rounds up: a sleep that is too short would be followed by empty rounds.
int PollTimeout(absl::Duration wait) {
  wait = std::clamp(wait, absl::ZeroDuration(), kLongestSleep);
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

}  // namespace

DnsWorker::~DnsWorker() {
  {
    const base::MutexLock lock(mutex_);
    ends_ = true;
  }
  if (wake_.valid()) Wake();
  thread_.Join();
}

absl::Status DnsWorker::Start() {
  const base::MutexLock lock(mutex_);
  if (runs_) return absl::OkStatus();
  if (!wake_.valid()) {
    wake_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
  if (!wake_.valid()) {
    return absl::UnavailableError(
        absl::StrCat("no descriptor for DNS: ", std::strerror(errno)));
  }
  const absl::Status started = thread_.Start([this] { Run(); });
  if (!started.ok()) return absl::UnavailableError(started.message());
  runs_ = true;
  return absl::OkStatus();
}

void DnsWorker::Add(std::shared_ptr<DnsFollower> follower) {
  {
    const base::MutexLock lock(mutex_);
    newcomers_.push_back(std::move(follower));
  }
  Wake();
}

void DnsWorker::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      write(wake_.get(), &one, sizeof(one));
}

void DnsWorker::Run() {
  while (TakeNews()) {
    const absl::Time now = base::Now();
    const absl::Time until = StartLooks(now);
    Wait(until, now);
  }
  followers_.clear();
}

bool DnsWorker::TakeNews() {
  {
    const base::MutexLock lock(mutex_);
    if (ends_) return false;
    followers_.insert(followers_.end(), newcomers_.begin(), newcomers_.end());
    newcomers_.clear();
  }
  std::erase_if(followers_, [](const auto& each) { return each->left(); });
  for (const auto& each : followers_) each->TakeWish();
  return true;
}

absl::Time DnsWorker::StartLooks(absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  size_t looks = 0;
  std::vector<DnsFollower*> due;
  for (const auto& each : followers_) {
    if (each->looking()) {
      ++looks;
    } else if (each->due() <= now) {
      due.push_back(each.get());
    } else {
      next = std::min(next, each->due());
    }
  }
  // The others start when a look ends, which ends the sleep, too.
  const size_t starts =
      std::min(due.size(), kLooksAtOnce - std::min(looks, kLooksAtOnce));
  std::partial_sort(due.begin(), due.begin() + starts, due.end(),
                    [](const DnsFollower* a, const DnsFollower* b) {
                      return a->due() < b->due();
                    });
  for (size_t i = 0; i < starts; ++i) due[i]->StartLook(now);
  return next;
}

void DnsWorker::Wait(absl::Time until, absl::Time now) {
  std::vector<pollfd> sockets = {
      {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  std::vector<Share> shares;
  for (const auto& each : followers_) {
    if (!each->looking()) continue;
    shares.push_back({.follower = each.get(), .first = sockets.size()});
    each->AddSockets(sockets);
    until = std::min(until, each->NextTime(now));
  }
  const int ready =
      poll(sockets.data(), sockets.size(), PollTimeout(until - base::Now()));
  if (ready < 0) {
    // EINTR, or no memory: the sockets are asked in the next round.
    for (pollfd& each : sockets) each.revents = 0;
  }
  if (sockets.front().revents != 0) {
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t size =
        read(wake_.get(), &wakes, sizeof(wakes));
  }
  const absl::Time after = base::Now();
  for (size_t i = 0; i < shares.size(); ++i) {
    const size_t end =
        i + 1 < shares.size() ? shares[i + 1].first : sockets.size();
    const auto own = absl::MakeConstSpan(sockets).subspan(
        shares[i].first, end - shares[i].first);
    shares[i].follower->Process(own, after);
  }
}

}  // namespace verbena::internal
