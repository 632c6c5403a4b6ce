// Carries the answers of a resolver to the owner of the poller.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_RESOLVER_LINK_H_
#define VERBENA_RPC_INTERNAL_CLIENT_RESOLVER_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/resolver.h"
#include "transport/base/mutex.h"
#include "transport/polling/poller_threads.h"

namespace verbena::internal {

// Owns a Resolver: makes it and destroys it on the poller's background thread,
// because either may block for a moment. Destroys itself.
class ResolverLink final {
 public:
  using Answer = absl::StatusOr<Resolved>;

  // Makes a resolver, again after a failure if ResolveNow() is called.
  // `on_answer` is called with the poller's ownership held, never inside of
  // this function, until Close().
  static ResolverLink* Open(SharedPoller* poller,
                            std::shared_ptr<ResolverFactory> factory,
                            Target target,
                            std::function<void(Answer)> on_answer);
  ResolverLink(const ResolverLink&) = delete;
  ResolverLink& operator=(const ResolverLink&) = delete;

  // As Resolver::ResolveNow(). With the poller's ownership held.
  void ResolveNow();
  // `on_answer` is not called any more. With the poller's ownership held, not
  // inside of `on_answer`. The poller stays until the resolver is destroyed.
  void Close();

 private:
  // On the background thread: sees to it that there is a resolver if there is
  // to be one, and none if not.
  class Tend final : public transport::ShortTask {
   public:
    explicit Tend(ResolverLink* link) : link_(link) {}
    void Run() override { link_->RunTend(); }

   private:
    ResolverLink* const link_;
  };
  // With the ownership: hands the last answer on.
  class Tell final : public transport::Task {
   public:
    explicit Tell(ResolverLink* link) : link_(link) {}
    void Run() override { link_->RunTell(); }

   private:
    ResolverLink* const link_;
  };

  ResolverLink(SharedPoller* poller, std::shared_ptr<ResolverFactory> factory,
               Target target, std::function<void(Answer)> on_answer)
      : poller_(*poller),
        factory_(std::move(factory)),
        target_(std::move(target)),
        on_answer_(std::move(on_answer)) {}
  ~ResolverLink() = default;

  void RunTend();
  void RunTell();
  void PostTend() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether that worked.
  bool Make();
  void Keep(Answer answer);
  // `mine` says that a task of this stands in a queue or runs; it has ended.
  // Destroys this behind Close(), if the other task has ended, too.
  void End(bool* mine);

  SharedPoller& poller_;
  const std::shared_ptr<ResolverFactory> factory_;
  const Target target_;
  const std::function<void(Answer)> on_answer_;
  Tend tend_{this};
  Tell tell_{this};

  base::Mutex mutex_;
  // Made and destroyed by tend_ alone.
  std::unique_ptr<Resolver> resolver_ ABSL_GUARDED_BY(mutex_);
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mutex_);  // Not handed on yet.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Something for tend_ to do has come since it has looked.
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  // The tasks stand in a queue or run.
  bool tends_ ABSL_GUARDED_BY(mutex_) = false;
  bool tells_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_RESOLVER_LINK_H_
