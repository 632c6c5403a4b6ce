#include "tools/rpc_bench/rpc_layer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/channel.h"
#include "rpc/channel_options.h"
#include "rpc/client_context.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/meter.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

constexpr absl::Duration kDescribeTimeout = absl::Seconds(10);

// One call after another. When the first is made and when they end, a Meter of
// its own or a common one decides.
class Chain {
 public:
  // `request` must outlive it.
  Chain(Channel& channel, const Case& measured, const EchoRequest& request,
        absl::Time deadline)
      : attachment_(measured.attachment),
        request_(&request),
        check_(measured.validate) {
    if (attachment_) {
      Buffer buffer = channel.AllocateBuffer(request.payload().size());
      std::copy(request.payload().begin(), request.payload().end(),
                buffer.data());
      payload_ = buffer.span();
      context_.set_request_attachment(std::move(buffer));
      request_ = &own_request_;
    } else if (measured.validate) {
      own_request_ = request;
      payload_ = BytesOf(*own_request_.mutable_payload());
      request_ = &own_request_;
    }
    context_.set_deadline(base::ToWallClock(deadline));
  }

  ClientContext* context() { return &context_; }
  EchoReply* reply() { return &reply_; }

  // The next request, due at `due`.
  const EchoRequest& Next(Clock::time_point due) {
    due_ = due;
    check_.Stamp(payload_);
    return *request_;
  }

  // When the call that is under way was due.
  Clock::time_point due() const { return due_; }

  // What came of the call: `status`, if it failed or the reply is right.
  absl::Status Verdict(const absl::Status& status) {
    if (!status.ok()) return status;
    return attachment_
               ? check_.Compare(context_.response_attachment(), payload_)
               : check_.Compare(BytesOf(reply_.payload()),
                                BytesOf(request_->payload()));
  }

 private:
  const bool attachment_;
  EchoRequest own_request_;     // If each is to differ, or to be empty.
  const EchoRequest* request_;  // That, or one that all chains send.
  // The bytes that are this chain's alone: the attachment, or the payload in
  // own_request_.
  absl::Span<uint8_t> payload_;
  EchoCheck check_;
  ClientContext context_;
  EchoReply reply_;
  Clock::time_point due_;
};

// Adds the sample `part` to `total`.
void Add(const Sample& part, Sample& total) {
  total.latencies.Merge(part.latencies);
  if (total.errors == 0) total.first_error = part.first_error;
  total.errors += part.errors;
  total.ended += part.ended;
  total.calls_per_s += part.calls_per_s;
}

// Calls one after another by the blocking stub.
Sample RunBlocking(Channel& channel, Echo::Stub& stub, const Case& measured,
                   const EchoRequest& request, const Schedule& schedule) {
  Meter meter(schedule);
  Chain chain(channel, measured, request, schedule.deadline);
  Clock::time_point now = Clock::now();
  while (!meter.Over(now)) {
    if (!meter.Due(now)) {
      now = Clock::now();
      continue;
    }
    const EchoRequest& next = chain.Next(meter.Start(now));
    const absl::Status status = stub.Echo(chain.context(), next, chain.reply());
    now = Clock::now();
    meter.End(chain.due(), now, chain.Verdict(status));
  }
  return meter.Finish();
}

// Several chains, each of which goes on in the callback of its call.
class ClosedLoop {
 public:
  ClosedLoop(Channel& channel, Echo::Stub& stub, const Case& measured,
             const EchoRequest& request, const Schedule& schedule)
      : stub_(stub), own_(schedule), running_(measured.outstanding) {
    // Each warms up and counts for itself.
    own_.warm_up_calls /= measured.outstanding;
    if (measured.iterations > 0) {
      own_.iterations = (measured.iterations + measured.outstanding - 1) /
                        measured.outstanding;
    }
    for (int i = 0; i < measured.outstanding; ++i) {
      links_.push_back(
          std::make_unique<Link>(channel, measured, request, own_));
    }
  }

  Sample Run() {
    for (const std::unique_ptr<Link>& link : links_) Call(*link, Clock::now());
    {
      const base::MutexLock lock(mutex_);
      while (running_ > 0) all_ended_.Wait(mutex_);
    }
    Sample sample;
    for (const std::unique_ptr<Link>& link : links_) {
      Add(link->meter.Finish(), sample);
    }
    return sample;
  }

 private:
  struct Link {
    Link(Channel& channel, const Case& measured, const EchoRequest& request,
         const Schedule& schedule)
        : chain(channel, measured, request, schedule.deadline),
          meter(schedule) {}
    Chain chain;
    Meter meter;
  };

  void Call(Link& link, Clock::time_point now) {
    if (!link.meter.Due(now)) return End();
    const EchoRequest& request = link.chain.Next(link.meter.Start(now));
    stub_.async()->Echo(link.chain.context(), &request, link.chain.reply(),
                        [this, &link](const absl::Status& status) {
                          const Clock::time_point ended = Clock::now();
                          link.meter.End(link.chain.due(), ended,
                                         link.chain.Verdict(status));
                          Call(link, ended);
                        });
  }

  void End() {
    // Notified under the lock: this object may be gone right after it.
    const base::MutexLock lock(mutex_);
    if (--running_ == 0) all_ended_.NotifyOne();
  }

  Echo::Stub& stub_;
  Schedule own_;
  std::vector<std::unique_ptr<Link>> links_;

  base::Mutex mutex_;
  base::CondVar all_ended_;
  // Links that have not ended.
  int running_ ABSL_GUARDED_BY(mutex_);
};

// Calls that this thread starts by the clock, and callbacks that only count.
class OpenLoop {
 public:
  OpenLoop(Channel& channel, Echo::Stub& stub, const Case& measured,
           const EchoRequest& request, const Schedule& schedule)
      : stub_(stub), meter_(schedule) {
    for (int i = 0; i < measured.outstanding; ++i) {
      chains_.push_back(std::make_unique<Chain>(channel, measured, request,
                                                schedule.deadline));
      free_.push_back(chains_.back().get());
    }
  }

  Sample Run() {
    while (true) {
      const Clock::time_point now = Clock::now();
      base::MutexLock lock(mutex_);
      if (meter_.Over(now)) {
        if (free_.size() == chains_.size()) return meter_.Finish();
      } else if (meter_.Due(now) && !free_.empty()) {
        Chain* const chain = free_.back();
        free_.pop_back();
        const EchoRequest& request = chain->Next(meter_.Start(now));
        lock.Unlock();
        Call(*chain, request);
        continue;
      }
      lock.Unlock();
      // The callbacks may need this processor.
      std::this_thread::yield();
    }
  }

 private:
  void Call(Chain& chain, const EchoRequest& request) {
    stub_.async()->Echo(chain.context(), &request, chain.reply(),
                        [this, &chain](const absl::Status& status) {
                          const Clock::time_point ended = Clock::now();
                          const absl::Status verdict = chain.Verdict(status);
                          const base::MutexLock lock(mutex_);
                          meter_.End(chain.due(), ended, verdict);
                          free_.push_back(&chain);
                        });
  }

  Echo::Stub& stub_;
  std::vector<std::unique_ptr<Chain>> chains_;

  base::Mutex mutex_;
  Meter meter_ ABSL_GUARDED_BY(mutex_);
  // Chains without a call.
  std::vector<Chain*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

RpcLayer::RpcLayer(std::shared_ptr<Channel> channel)
    : channel_(std::move(channel)), stub_(Echo::NewStub(channel_)) {}

absl::StatusOr<std::unique_ptr<RpcLayer>> RpcLayer::Connect(
    const std::string& target, const std::string& device, bool events,
    absl::Duration timeout) {
  ChannelOptions options;
  options.device = device;
  if (events) options.spin_budget = absl::ZeroDuration();
  std::unique_ptr<RpcLayer> layer(new RpcLayer(CreateChannel(target, options)));
  ClientContext context;
  context.set_timeout(timeout);
  EchoReply reply;
  RETURN_IF_ERROR(layer->stub_->Echo(&context, EchoRequest(), &reply));
  layer->device_ = layer->channel_->device();
  return layer;
}

absl::StatusOr<DescribeReply> RpcLayer::Describe() {
  ClientContext context;
  context.set_timeout(kDescribeTimeout);
  DescribeReply reply;
  RETURN_IF_ERROR(stub_->Describe(&context, DescribeRequest(), &reply));
  return reply;
}

Sample RpcLayer::Run(const Case& measured, absl::Duration duration) {
  EchoRequest request;
  request.set_payload(Payload(measured.size_bytes));
  const Schedule schedule(measured, duration);
  if (measured.outstanding == 1) {
    return RunBlocking(*channel_, *stub_, measured, request, schedule);
  }
  if (measured.rate_per_s > 0) {
    return OpenLoop(*channel_, *stub_, measured, request, schedule).Run();
  }
  return ClosedLoop(*channel_, *stub_, measured, request, schedule).Run();
}

}  // namespace verbena::bench
