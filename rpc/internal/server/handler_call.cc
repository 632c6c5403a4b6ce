#include "rpc/internal/server/handler_call.h"

#include <sys/resource.h>

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/codec/status_text.h"
#include "transport/base/cycle_counter.h"
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

HandlerCall::HandlerCall(Owner* owner, PollerShare* share,
                         const MethodRegistry::Method& method,
                         BlockingMethod* blocking, MethodCounters* counters)
    : WorkerTask(blocking == nullptr ? nullptr : &blocking->pace),
      owner_(*owner),
      share_(*share),
      method_(*method.method),
      method_index_(method.index),
      streams_(method.streams),
      blocking_(blocking),
      messages_(&method_),
      state_(&method_),
      guard_(share->gate, &method_, &state_, &messages_),
      reply_(&state_, &messages_, share->reply_limits),
      counters_(*counters),
      reactors_(method_.asynchronous()
                    ? std::make_unique<ReactorHandler>(this, &method_, &state_,
                                                       &guard_, messages_.all(),
                                                       share, &blocking->pace)
                    : nullptr) {}

// Makes this object ready for the call, and checks that the method streams as
// the client thinks. Then passes the call to a reactor or to a thread.
void HandlerCall::Begin(transport::ServerCall* call) {
  counters_.NoteStart(call->message().size() + call->attachment().size());
  // Inline handlers are so quick that reading the counter twice for each would
  // be felt: see MethodCounters.
  timed_ = blocking_ != nullptr || counters_.IsTimed();
  if (timed_) begun_ = base::CycleNow();
  call->set_user(this);
  parsed_ = false;
  messages_.Reset();
  guard_.Reset();
  reply_.Reset();
  absl::Status refusal = state_.Begin(call);
  if (ABSL_PREDICT_FALSE(streams_ != (call->stream() != nullptr)) &&
      refusal.ok()) {
    refusal = absl::UnimplementedError(absl::StrCat(
        method_name(), streams_ ? " streams" : " does not stream",
        " by the server's .proto, and the client calls it as if it did",
        streams_ ? " not" : ""));
  }
  if (ABSL_PREDICT_FALSE(!refusal.ok())) {
    reply_.set_status(std::move(refusal));
    return Finish();
  }
  if (reactors_ != nullptr) return BeginReactor();
  BeginHandler();
}

// Parses a unary request first, here or on a worker. A reactor that streams
// reads its own messages.
void HandlerCall::BeginReactor() {
  transport::ServerCall* const call = state_.call();
  if (streams_) return reactors_->Begin(call);
  if (ABSL_PREDICT_FALSE(
          call->owns_message() &&
          ParsesOnWorker(call->message().size(), &blocking_->pace))) {
    return ServeOnWorker();
  }
  if (!Parse()) return Finish();
  reactors_->Begin(call);
}

// Chooses the thread of the handler: the poller in the round, the poller's
// thread between two rounds, or a worker. The table in
// docs/internals/polling.md has the conditions.
void HandlerCall::BeginHandler() {
  transport::ServerCall* const call = state_.call();
  if (ABSL_PREDICT_FALSE(streams_)) {
    stream_ = std::make_unique<HandlerStream>(
        call, &state_, share_.reply_limits.message_bytes);
    return ServeOnWorker();
  }
  // The handler promises not to block.
  if (blocking_ == nullptr) {
    if (Parse()) Handle();
    return Finish();
  }
  // Bytes in a receive buffer are valid only until OnCall() returns.
  if (!call->owns_message() && !Parse()) return Finish();
  if (IsShort()) {
    // Before the post. Relaxed, because each owner of the poller sees what the
    // one before did.
    step_.store(Step::kBesidePoller, std::memory_order_relaxed);
    if (call->PostShort(this)) return;
  }
  ServeOnWorker();
}

bool HandlerCall::IsShort() const {
  return blocking_->pace.is_short() &&
         state_.call()->message().size() <= kLargeBytes;
}

absl::Status HandlerCall::SubmitToWorkers() {
  // Before Submit(), after which a worker may run this at once. The pool's
  // mutex orders the two, so relaxed is enough.
  step_.store(Step::kAwaitWorker, std::memory_order_relaxed);
  absl::Status refusal = share_.threads->Submit(this, &blocking_->lane,
                                                state_.call()->connection());
  if (ABSL_PREDICT_TRUE(refusal.ok())) return refusal;
  step_.store(Step::kWorking, std::memory_order_relaxed);
  refusal = Annotate(refusal, method_name());
  share_.refusals.Note(Refusals::Limit::kQueue,
                       absl::StrCat("calls are refused: ", refusal.message()));
  return refusal;
}

void HandlerCall::ServeOnWorker() {
  absl::Status refusal = SubmitToWorkers();
  if (ABSL_PREDICT_TRUE(refusal.ok())) return;
  reply_.set_status(std::move(refusal));
  Finish();
}

// The step says which queue the call comes from, and so which thread this is.
void HandlerCall::Run() {
  switch (step_.load(std::memory_order_relaxed)) {
    case Step::kAwaitWorker:
      step_.store(Step::kWorking, std::memory_order_relaxed);
      return Post(Work());
    case Step::kBesidePoller:
      return RunBesidePoller();
    case Step::kUnserved:
      share_.refusals.Note(
          Refusals::Limit::kWorkers,
          absl::StrCat("a call of ", method_name(),
                       " waited for a worker until its client had given up: "
                       "raise ServerBuilder::SetMaxWorkerThreads, or make the "
                       "handlers shorter; one method, or one client, gets at "
                       "most seven eighths of the workers"));
      return Finish();
    case Step::kLongParsed:
      return reactors_->OnLongParsed();
    case Step::kBeginReactor:
      // A reactor that is not there yet was not told.
      if (!state_.IsCancelled()) return reactors_->Begin(state_.call());
      reply_.set_status(state_.CancelledStatus());
      return Finish();
    default:
      return Finish();
  }
}

// Does the worker's part of the call, of which there are four kinds: a long
// message of a reactor's stream, a reactor's request, a stream, or a unary
// handler.
HandlerCall::Step HandlerCall::Work() {
  if (reactors_ != nullptr && reactors_->on_worker()) {
    reactors_->ParseLong();
    return Step::kLongParsed;
  }
  // The call may have waited for long.
  if (state_.IsCancelled()) {
    reply_.set_status(state_.CancelledStatus());
    return Step::kUnserved;
  }
  if (reactors_ != nullptr) {
    return Parse() ? Step::kBeginReactor : Step::kFinish;
  }
  if (streams_) {
    HandleStream();
    return Step::kFinish;
  }
  // A clock cannot tell a slow handler from a thread without a processor. The
  // kernel's counts of switches can.
  const rusage before = UseOfThisThread();
  const uint64_t start = base::CycleNow();
  Serve();
  const uint64_t now = base::CycleNow();
  // A busy machine takes processors from many workers: that says nothing.
  if (!WasOnlyInterrupted(before)) blocking_->pace.NoteTime(now - start, now);
  return Step::kFinish;
}

// Counts each time without a look at switches: PollerThreads reports a handler
// that sleeps, and one slow call is forgiven.
void HandlerCall::RunBesidePoller() {
  const uint64_t start = base::CycleNow();
  Serve();
  const uint64_t now = base::CycleNow();
  blocking_->pace.NoteTime(now - start, now);
  Post(Step::kFinish);
}

void HandlerCall::Post(Step step) {
  step_.store(step, std::memory_order_relaxed);
  // The last access to this: the poller may end the call meanwhile.
  state_.call()->poller().Post(this);
}

void HandlerCall::Serve() {
  if ((parsed_ || Parse()) && Handle()) reply_.WriteAhead();
}

bool HandlerCall::Parse() {
  transport::ServerCall* const call = state_.call();
  parsed_ = true;
  // Before the parse, which may take memory although it fails.
  messages_.NoteBytes(call->message().size());
  // The pace of a blocking method includes its handler.
  const ParseTimer timer(reactors_ == nullptr ? nullptr : &blocking_->pace,
                         call->message().size());
  const absl::Status status =
      ParseMessage(call->message(), messages_.request());
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    reply_.set_status(
        Annotate(status, absl::StrCat(method_name(), " (at the server)")));
    return false;
  }
  // The handler may take long, and other calls wait for bulk memory.
  if (call->owns_message()) call->ReleaseMessage();
  return true;
}

bool HandlerCall::Handle() {
  // The object is that of an earlier call.
  messages_.response()->Clear();
  return TakeReply(state_.Answer(guard_.Run(
      [this] { return method_.Run(&state_, messages_.all(), nullptr); })));
}

void HandlerCall::HandleStream() {
  absl::Status status = state_.Answer(guard_.Run(
      [this] { return method_.Run(&state_, nullptr, stream_.get()); }));
  if (stream_->messages().failed()) {
    // The cause, whatever the handler has made of it.
    status = Annotate(stream_->messages().failure(), method_name());
  }
  // After the cause is known, because interceptors see the final status.
  guard_.End(&status);
  reply_.set_status(std::move(status));
}

// A unary call ends at once. A stream's end goes through the poller's queue,
// behind the tasks that its stream has posted.
void HandlerCall::EndReactor(absl::Status status) {
  status = state_.Answer(std::move(status));
  if (!streams_) {
    TakeReply(std::move(status));
    return Finish();
  }
  guard_.End(&status);
  reply_.set_status(std::move(status));
  messages_.NoteUnknown();
  // Behind what the stream has posted, which may be gone afterwards.
  Post(Step::kFinish);
}

// Measures the response, then tells the interceptors of the end. They may turn
// success into an error or an error into success, so the result is looked at
// again.
bool HandlerCall::TakeReply(absl::Status status) {
  bool good = false;
  if (ABSL_PREDICT_TRUE(status.ok())) {
    good = reply_.TakeMessage();
  } else {
    // The reply may take much memory all the same.
    messages_.NoteUnknown();
    reply_.set_status(std::move(status));
  }
  if (ABSL_PREDICT_TRUE(!guard_.has_interceptors())) return good;
  status = reply_.status();
  guard_.EndUnary(&status);
  reply_.set_status(std::move(status));
  // Finish() drops what was measured where an error took its place.
  return reply_.status().ok() && (good || reply_.TakeMessage());
}

// Completes the reply, counts it, lets go of everything of the transport's
// call, and hands the reply over. If the reply is still to be written, the call
// is over when the transport says so.
void HandlerCall::Finish() {
  if (ABSL_PREDICT_TRUE(SendPlainReply())) return;
  reply_.Complete();
  // Behind Complete(), which may put an error in the place of the reply.
  NoteEnd();
  if (const ProtobufStream* const stream = state_.stream()) {
    counters_.NoteStream(stream->read_count(), stream->write_count());
  }
  state_.data().DropAttachments();
  const bool to_write = reply_.is_unwritten();
  // Until it is written may be long from now.
  if (to_write && reactors_ == nullptr && HoldsTooMuch()) {
    messages_.all()->DropRequest();
  }
  if (stream_ != nullptr) {
    // ServerCall wants its stream without an owner before Finish().
    stream_->Detach();
    stream_.reset();
  }
  if (reactors_ != nullptr) {
    // OnDone() may ask the context for what only the transport's call knows.
    if (reactors_->reacts_to_done()) state_.Keep();
    reactors_->Detach();
  }
  transport::ServerCall* const call = state_.End();
  // Not through state_: the call has left it, because it is the transport's
  // from here on.
  call->Finish(reply_.Take(to_write ? this : nullptr));
  if (!to_write) Over();
}

// Writes a reply that is a message and nothing else straight into its frame,
// and skips the checks of the rest.
bool HandlerCall::SendPlainReply() {
  if (!reply_.WritePlain()) return false;
  NoteEnd();
  state_.data().DropAttachments();
  if (ABSL_PREDICT_FALSE(reactors_ != nullptr) && reactors_->reacts_to_done()) {
    state_.Keep();
  }
  state_.End()->SendReply();
  Over();
  return true;
}

// Counts before the call is given back, while its peer is known.
void HandlerCall::NoteEnd() {
  counters_.NoteResponse(reply_.bytes());
  const absl::StatusCode code = reply_.status().code();
  if (!timed_) return counters_.NoteUntimedEnd(code);
  const uint64_t now = base::CycleNow();
  const uint64_t cycles = now - begun_;
  counters_.NoteEnd(code, cycles);
  if (ABSL_PREDICT_FALSE(share_.slow_calls.IsSlow(cycles))) {
    share_.slow_calls.Add(method_name(), state_.peer(), code, cycles, now);
  }
}

// Gives the signal at once, but tells its listeners from a task: the transport
// is in the middle of things.
void HandlerCall::OnCancelled() {
  const bool has_token = state_.cancel_signal().Give();
  // Nobody to tell. A blocking handler asks IsCancelled().
  if (reactors_ == nullptr && !has_token) return;
  if (std::exchange(cancel_task_.is_posted, true)) return;
  state_.call()->poller().Post(&cancel_task_);
}

// If the call has ended meanwhile, this task is all that was missing.
void HandlerCall::TellCancelled() {
  cancel_task_.is_posted = false;
  if (cancel_task_.ends_call) return Over();
  state_.cancel_signal().Tell();
  if (reactors_ != nullptr) reactors_->OnCancelled();
}

// Recycles the call, unless cancel_task_ stands in a queue: then
// TellCancelled() comes here again.
void HandlerCall::Over() {
  if (ABSL_PREDICT_FALSE(reactors_ != nullptr)) reactors_->OnOver();
  cancel_task_.ends_call = cancel_task_.is_posted;
  if (ABSL_PREDICT_FALSE(cancel_task_.ends_call)) return;
  state_.Reset();
  owner_.Recycle(this);
}

}  // namespace verbena::internal
