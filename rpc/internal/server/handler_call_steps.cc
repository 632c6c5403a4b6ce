// The way of a call through threads: from the poller to a worker, or beside the
// poller, and back.

#include <sys/resource.h>

#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "rpc/internal/codec/status_text.h"
#include "rpc/internal/server/handler_call.h"
#include "rpc/internal/server/handler_call_pool.h"
#include "transport/polling/poller.h"

namespace verbena::internal {
namespace {

rusage UseOfThisThread() {
  rusage use = {};
  getrusage(RUSAGE_THREAD, &use);
  return use;
}

// Whether this thread has lost its processor since then, and never slept.
bool WasOnlyInterrupted(const rusage& before) {
  const rusage now = UseOfThisThread();
  return now.ru_nivcsw != before.ru_nivcsw && now.ru_nvcsw == before.ru_nvcsw;
}

}  // namespace

absl::Status HandlerCall::SubmitToWorkers() {
  step_ = Step::kOnWorker;
  awaits_worker_.store(true, std::memory_order_relaxed);
  absl::Status refusal =
      threads_->Submit(this, &blocking_->lane, call_->connection());
  if (ABSL_PREDICT_TRUE(refusal.ok())) return refusal;
  awaits_worker_.store(false, std::memory_order_relaxed);
  refusal = Annotate(refusal, method());
  pool_->NoteRefusal(HandlerCallPool::Limit::kQueue, refusal.message());
  return refusal;
}

void HandlerCall::ServeOnWorker() {
  absl::Status refusal = SubmitToWorkers();
  if (ABSL_PREDICT_TRUE(refusal.ok())) return;
  reply_.status = std::move(refusal);
  Finish();
}

void HandlerCall::Run() {
  switch (step_) {
    case Step::kOnWorker:
      return RunOnWorker();
    case Step::kBesidePoller:
      return RunBesidePoller();
    case Step::kReply:
      return TakeFromWorker();
  }
}

void HandlerCall::RunOnWorker() {
  awaits_worker_.store(false, std::memory_order_relaxed);
  if (reactors_ != nullptr && reactors_->on_worker()) {
    reactors_->ParseLong();
    return PostReply();
  }
  // The call may have waited for long.
  if (IsCancelled()) {
    reply_.status = CancelledStatus();
    unserved_ = true;
  } else if (reactors_ != nullptr) {
    Parse();
  } else if (streams_) {
    HandleStream();
  } else {
    const rusage before = UseOfThisThread();
    const uint64_t start = __builtin_ia32_rdtsc();
    Serve();
    const uint64_t now = __builtin_ia32_rdtsc();
    // A busy machine takes processors from many workers: that says nothing.
    if (!WasOnlyInterrupted(before)) blocking_->pace.NoteTime(now - start, now);
  }
  PostReply();
}

void HandlerCall::TakeFromWorker() {
  if (reactors_ != nullptr && reactors_->on_worker()) {
    return reactors_->OnLongParsed();
  }
  if (ABSL_PREDICT_FALSE(std::exchange(unserved_, false))) {
    pool_->NoteUnserved(method());
  }
  if (ABSL_PREDICT_TRUE(!std::exchange(starts_reactor_, false))) {
    return Finish();
  }
  // A reactor that is not there yet was not told.
  if (reply_.status.ok() && IsCancelled()) reply_.status = CancelledStatus();
  if (!reply_.status.ok()) return Finish();
  reactors_->Begin(call_);
}

void HandlerCall::RunBesidePoller() {
  const uint64_t start = __builtin_ia32_rdtsc();
  Serve();
  const uint64_t now = __builtin_ia32_rdtsc();
  blocking_->pace.NoteTime(now - start, now);
  PostReply();
}

// The call may be over before this returns.
void HandlerCall::PostReply() {
  step_ = Step::kReply;
  call_->poller().Post(this);
}

void HandlerCall::Serve() {
  if ((parsed_ || Parse()) && Handle()) WriteAhead();
}

}  // namespace verbena::internal
