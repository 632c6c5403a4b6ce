#include "tools/rpc_bench/rpc_layer.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/channel_options.h"
#include "rpc/client_context.h"
#include "rpc/task.h"
#include "tools/load/echo_loop.h"
#include "tools/load/meter.h"
#include "tools/rpc_bench/stream.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr absl::Duration kDescribeTimeout = absl::Seconds(10);

// Calls over a channel. Of one call at a time the blocking stub makes the next
// in Poll(); several go on in their callbacks.
//
// Callbacks run on a thread of the channel. So a lock is held whenever a
// function of this class or its sink runs, given up while Poll() waits.
class RpcPipe final : public EchoPipe {
 public:
  // Makes the calls of all slots beforehand, with their payloads and deadlines,
  // so that Start() only sends.
  RpcPipe(Channel& channel, std::vector<Echo::Stub*> stubs,
          const Case& measured, absl::Time deadline)
      : stubs_(std::move(stubs)),
        blocking_(measured.outstanding == 1 && measured.api == Api::kBlocking),
        coroutines_(measured.api == Api::kCoroutine),
        attachment_(measured.attachment),
        check_(measured.validate) {
    request_.set_payload(Payload(measured.size_bytes));
    for (int i = 0; i < measured.outstanding; ++i) {
      Call& call = *calls_.emplace_back(std::make_unique<Call>());
      call.pipe = this;
      call.slot = i;
      call.context.set_deadline(base::ToWallClock(deadline));
      if (attachment_) {
        Buffer buffer = channel.AllocateBuffer(measured.size_bytes);
        std::copy(request_.payload().begin(), request_.payload().end(),
                  buffer.data());
        call.payload = buffer.span();
        call.context.set_request_attachment(std::move(buffer));
      } else if (measured.validate) {
        call.own_request = request_;
        call.payload = BytesOf(*call.own_request.mutable_payload());
      }
    }
  }

  Sample Run(const Case& measured, absl::Duration duration) {
    const base::MutexLock lock(mutex_);
    Sample sample = RunEchoes(*this, measured, duration);
    sink_ = nullptr;
    while (under_way_ > 0) all_ended_.Wait(mutex_);
    return sample;
  }

  // A blocking call is made by Poll(), so here it only counts as begun.
  void Start(int slot) override {
    mutex_.AssertHeld();
    Call& call = *calls_[slot];
    check_.Stamp(call.payload);
    ++under_way_;
    if (blocking_) return;
    if (coroutines_) return internal::StartTask(CallByCoroutine(call), &call);
    NextStub().async()->Echo(
        &call.context, &RequestOf(call), &call.reply,
        [this, slot](const absl::Status& status) { OnEnded(slot, status); });
  }

  // Makes a blocking call here; otherwise waits for callbacks, or lets them run
  // if it may not wait.
  absl::Status Poll(Sink& sink, absl::Time until) override {
    mutex_.AssertHeld();
    sink_ = &sink;
    if (blocking_) {
      if (under_way_ == 0) return absl::OkStatus();
      Call& call = *calls_.front();
      End(0, NextStub().Echo(&call.context, RequestOf(call), &call.reply));
    } else if (until > base::Now()) {
      all_ended_.WaitUntil(mutex_, until);
    } else {
      LetCallbacksRun();
    }
    return absl::OkStatus();
  }

 private:
  struct Call final : internal::TaskObserver<absl::Status> {
    // Called when the coroutine of the call has ended.
    void OnTaskDone(
        internal::TaskResult<absl::Status> result) noexcept override {
      pipe->OnEnded(slot, result.Take());
    }

    RpcPipe* pipe = nullptr;
    int slot = 0;
    // The bytes that only this call uses, if there are any: its attachment, or
    // the payload in `own_request`.
    absl::Span<uint8_t> payload;
    EchoRequest own_request;
    ClientContext context;
    EchoReply reply;
  };

  // Without --validate, all calls share one request, which stays in the cache.
  const EchoRequest& RequestOf(const Call& call) const {
    return call.payload.empty() ? request_ : call.own_request;
  }

  Echo::Stub& NextStub() {
    const size_t turn = turn_;
    turn_ = turn + 1 == stubs_.size() ? 0 : turn + 1;
    return *stubs_[turn];
  }

  Task<absl::Status> CallByCoroutine(Call& call) {
    co_return co_await NextStub().co()->Echo(&call.context, RequestOf(call),
                                             &call.reply);
  }

  void OnEnded(int slot, const absl::Status& status) {
    const base::MutexLock lock(mutex_);
    End(slot, status);
    // Notifies with mutex_ held, because the object may be destroyed as soon as
    // the lock is released.
    if (under_way_ == 0) all_ended_.NotifyOne();
  }

  // Yields without the lock, because callbacks may need this processor.
  void LetCallbacksRun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    mutex_.unlock();
    std::this_thread::yield();
    mutex_.lock();
  }

  // Ends the call in `slot`. If it succeeded, but its reply differs from its
  // request, the sink gets an error.
  void End(int slot, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Call& call = *calls_[slot];
    if (status.ok()) {
      status = attachment_ ? check_.Compare(call.context.response_attachment(),
                                            call.payload)
                           : check_.Compare(BytesOf(call.reply.payload()),
                                            BytesOf(RequestOf(call).payload()));
    }
    // The sink is gone if the call has ended after RunEchoes().
    if (sink_ != nullptr) {
      sink_->OnLater();
      sink_->OnEnded(slot, status);
    }
    --under_way_;
  }

  const std::vector<Echo::Stub*> stubs_;  // Used by turns.
  size_t turn_ = 0;
  const bool blocking_;
  const bool coroutines_;
  const bool attachment_;
  EchoRequest request_;  // Sent by all calls that have no bytes of their own.
  std::vector<std::unique_ptr<Call>> calls_;  // By slot.

  base::Mutex mutex_;
  base::CondVar all_ended_;
  EchoCheck check_ ABSL_GUARDED_BY(mutex_);
  Sink* sink_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcLayer>> RpcLayer::Connect(
    const std::string& target, const ChannelOptions& options,
    absl::Duration timeout, const Crowd& crowd) {
  std::unique_ptr<RpcLayer> layer(
      new RpcLayer(CreateChannel(target, crowd.credentials, options)));
  for (int i = 1; i < crowd.channels; ++i) {
    layer->others_.push_back(
        Echo::NewStub(CreateChannel(target, crowd.credentials, options)));
  }
  layer->busy_others_ = crowd.busy - 1;
  // A channel connects with its first call.
  const auto connect = [timeout](Echo::Stub& stub) {
    ClientContext context;
    context.set_timeout(timeout);
    EchoReply reply;
    return stub.Echo(&context, EchoRequest(), &reply);
  };
  RETURN_IF_ERROR(connect(*layer->stub_));
  for (const auto& stub : layer->others_) RETURN_IF_ERROR(connect(*stub));
  return layer;
}

absl::StatusOr<DescribeReply> RpcLayer::Describe() {
  ClientContext context;
  context.set_timeout(kDescribeTimeout);
  DescribeReply reply;
  RETURN_IF_ERROR(
      Bench::NewStub(channel_)->Describe(&context, DescribeRequest(), &reply));
  return reply;
}

// Several streams, one stream, or calls: each has a pipe of its own.
Sample RpcLayer::Run(const Case& measured, absl::Duration duration) {
  if (measured.streams > 0) return RunStreamCrowd(*stub_, measured, duration);
  if (measured.kind != Kind::kUnary) {
    return RunStream(*channel_, *stub_, measured, duration);
  }
  std::vector<Echo::Stub*> stubs = {stub_.get()};
  for (size_t i = 0; i < busy_others_; ++i) stubs.push_back(others_[i].get());
  return RpcPipe(*channel_, std::move(stubs), measured,
                 Schedule(measured, duration).deadline)
      .Run(measured, duration);
}

}  // namespace verbena::bench
