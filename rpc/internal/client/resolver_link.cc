#include "rpc/internal/client/resolver_link.h"

namespace verbena::internal {

ResolverLink* ResolverLink::Open(SharedPoller* poller,
                                 std::shared_ptr<ResolverFactory> factory,
                                 Target target,
                                 std::function<void(Answer)> on_answer) {
  auto* const link = new ResolverLink(poller, std::move(factory),
                                      std::move(target), std::move(on_answer));
  poller->Pin();
  const base::MutexLock lock(link->mutex_);
  link->PostTend();
  return link;
}

void ResolverLink::PostTend() {
  wanted_ = true;
  if (std::exchange(tends_, true)) return;
  poller_.PostInBackground(&tend_);
}

// Only tend_ destroys the resolver, and only after Close(), so it is still
// there without the lock. The resolver may answer from inside, which takes the
// lock.
void ResolverLink::ResolveNow() {
  Resolver* resolver;
  {
    const base::MutexLock lock(mutex_);
    resolver = resolver_.get();
    if (resolver == nullptr) return PostTend();
  }
  resolver->ResolveNow();
}

void ResolverLink::Close() {
  const base::MutexLock lock(mutex_);
  closed_ = true;
  PostTend();
}

// If PostTend() is called while this runs, it posts nothing, so this looks
// again.
void ResolverLink::RunTend() {
  for (;;) {
    {
      const base::MutexLock lock(mutex_);
      if (closed_) break;
      if (resolver_ != nullptr) {
        tends_ = false;
        return;
      }
      wanted_ = false;
    }
    if (Make()) continue;
    const base::MutexLock lock(mutex_);
    if (wanted_) continue;
    tends_ = false;
    return;
  }
  std::unique_ptr<Resolver> last;
  {
    const base::MutexLock lock(mutex_);
    last = std::move(resolver_);
  }
  // Without the lock, for which an answer may wait.
  last.reset();
  End(&tends_);
}

bool ResolverLink::Make() {
  absl::StatusOr<std::unique_ptr<Resolver>> made = factory_->Create(
      target_, [this](Answer answer) { Keep(std::move(answer)); });
  if (!made.ok()) {
    Keep(made.status());
    return false;
  }
  const base::MutexLock lock(mutex_);
  resolver_ = *std::move(made);
  return true;
}

void ResolverLink::Keep(Answer answer) {
  const base::MutexLock lock(mutex_);
  answer_ = std::move(answer);
  if (!std::exchange(tells_, true)) poller_.PostFromOutside(&tell_);
}

// Close() needs the ownership, which this has, so it does not come in between.
void ResolverLink::RunTell() {
  std::optional<Answer> answer;
  bool closed;
  {
    const base::MutexLock lock(mutex_);
    answer = std::exchange(answer_, std::nullopt);
    closed = closed_;
    if (!closed) tells_ = false;
  }
  if (closed) return End(&tells_);
  if (answer.has_value()) on_answer_(*std::move(answer));
}

void ResolverLink::End(bool* mine) {
  SharedPoller& poller = poller_;
  {
    const base::MutexLock lock(mutex_);
    *mine = false;
    if (tends_ || tells_) return;
  }
  delete this;
  // Comes last, because the poller may end right after it.
  poller.Unpin();
}

}  // namespace verbena::internal
