#include "tools/rpc_bench/rpc_layer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/channel.h"
#include "rpc/channel_options.h"
#include "rpc/client_context.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

using Clock = std::chrono::steady_clock;

// How long after its time a measurement may still wait for its last call. Much,
// for the largest payloads on a busy machine; a dead server shows sooner.
constexpr absl::Duration kGrace = absl::Minutes(1);

// When calls are made, and from when on they count.
struct Schedule {
  explicit Schedule(absl::Duration duration)
      : begin(Clock::now() + absl::ToChronoNanoseconds(WarmUp(duration))),
        end(begin + absl::ToChronoNanoseconds(duration)),
        deadline(absl::Now() + WarmUp(duration) + duration + kGrace) {}

  static absl::Duration WarmUp(absl::Duration duration) {
    return std::clamp(duration / 5, absl::Milliseconds(5), absl::Seconds(1));
  }

  const Clock::time_point begin;
  const Clock::time_point end;
  const absl::Time deadline;  // Of every call.
};

// A payload in which no two 256-byte blocks that are near are alike.
std::string Payload(uint64_t size_bytes) {
  std::string payload(size_bytes, '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i * 31 + (i >> 8) * 17);
  }
  return payload;
}

// The part of a measurement that one chain of calls, each started when the one
// before it has ended, makes up.
class Chain {
 public:
  Chain(const Schedule& schedule, const EchoRequest& request)
      : schedule_(schedule), request_(request) {
    context_.set_deadline(schedule.deadline);
  }

  ClientContext* context() { return &context_; }
  EchoReply* reply() { return &reply_; }

  // Counts the call that started when the last one ended, or at Start(), and
  // ended now. Returns whether there is time for another.
  bool Count(const absl::Status& status) {
    const Clock::time_point now = Clock::now();
    const absl::Status verdict = status.ok() ? Check() : status;
    if (!verdict.ok()) {
      if (sample_.errors++ == 0) sample_.first_error = verdict;
    } else if (now >= schedule_.begin) {
      sample_.latencies.Record((now - started_).count());
    }
    last_end_ = now;
    started_ = now;
    return now < schedule_.end;
  }

  void Start() { started_ = Clock::now(); }

  // When the last call ended.
  Clock::time_point last_end() const { return last_end_; }
  const Sample& sample() const { return sample_; }

 private:
  // The whole contents once, and after that, for speed, their length.
  absl::Status Check() {
    const std::string& got = reply_.payload();
    const std::string& want = request_.payload();
    if (got.size() != want.size()) {
      return absl::DataLossError(
          absl::StrFormat("%d bytes came back of %d", got.size(), want.size()));
    }
    if (!checked_ && got != want) {
      return absl::DataLossError("other bytes came back than were sent");
    }
    checked_ = true;
    return absl::OkStatus();
  }

  const Schedule& schedule_;
  const EchoRequest& request_;
  ClientContext context_;
  EchoReply reply_;
  Clock::time_point started_;
  Clock::time_point last_end_;
  bool checked_ = false;  // The contents of a reply were found right.
  Sample sample_;
};

// Adds the sample of `chain` to `total`.
void Add(const Chain& chain, const Schedule& schedule, Sample& total) {
  total.latencies.Merge(chain.sample().latencies);
  if (total.errors == 0) total.first_error = chain.sample().first_error;
  total.errors += chain.sample().errors;
  total.elapsed = std::max(total.elapsed,
                           absl::FromChrono(chain.last_end() - schedule.begin));
}

// Several chains whose calls are started by the callbacks of those before.
class ConcurrentRun {
 public:
  ConcurrentRun(Echo::Stub& stub, const Schedule& schedule,
                const EchoRequest& request, int outstanding)
      : stub_(stub), request_(request), running_(outstanding) {
    for (int i = 0; i < outstanding; ++i) {
      chains_.push_back(std::make_unique<Chain>(schedule, request));
    }
  }

  void RunToEnd() {
    for (const std::unique_ptr<Chain>& chain : chains_) {
      chain->Start();
      Call(*chain);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    all_ended_.wait(lock, [this] { return running_ == 0; });
  }

  const std::vector<std::unique_ptr<Chain>>& chains() const { return chains_; }

 private:
  void Call(Chain& chain) {
    stub_.async()->Echo(chain.context(), &request_, chain.reply(),
                        [this, &chain](const absl::Status& status) {
                          if (chain.Count(status)) {
                            Call(chain);
                          } else {
                            End();
                          }
                        });
  }

  void End() {
    // Notified under the lock: this object may be gone right after it.
    std::lock_guard<std::mutex> lock(mutex_);
    if (--running_ == 0) all_ended_.notify_one();
  }

  Echo::Stub& stub_;
  const EchoRequest& request_;
  std::vector<std::unique_ptr<Chain>> chains_;

  std::mutex mutex_;
  std::condition_variable all_ended_;
  int running_;  // Chains that have not ended. Guarded by mutex_.
};

}  // namespace

RpcLayer::RpcLayer(std::shared_ptr<Channel> channel)
    : channel_(std::move(channel)), stub_(Echo::NewStub(channel_)) {}

absl::StatusOr<std::unique_ptr<RpcLayer>> RpcLayer::Connect(
    const std::string& target, const std::string& device,
    absl::Duration timeout) {
  ChannelOptions options;
  options.device = device;
  std::unique_ptr<RpcLayer> layer(new RpcLayer(CreateChannel(target, options)));
  ClientContext context;
  context.set_timeout(timeout);
  EchoReply reply;
  RETURN_IF_ERROR(layer->stub_->Echo(&context, EchoRequest(), &reply));
  layer->device_ = layer->channel_->device();
  return layer;
}

Sample RpcLayer::Run(const Case& measured, absl::Duration duration) {
  EchoRequest request;
  request.set_payload(Payload(measured.size_bytes));
  const Schedule schedule(duration);
  Sample sample;
  if (measured.outstanding == 1) {
    Chain chain(schedule, request);
    chain.Start();
    while (chain.Count(stub_->Echo(chain.context(), request, chain.reply()))) {
    }
    Add(chain, schedule, sample);
    return sample;
  }
  ConcurrentRun run(*stub_, schedule, request, measured.outstanding);
  run.RunToEnd();
  for (const std::unique_ptr<Chain>& chain : run.chains()) {
    Add(*chain, schedule, sample);
  }
  return sample;
}

}  // namespace verbena::bench
