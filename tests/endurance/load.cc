#include "tests/endurance/load.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rpc/internal/call/client_call_state.h"
#include "tests/integration/test_service.h"
#include "transport/base/clock.h"

namespace verbena::endurance {
namespace {

using end_to_end::EchoReply;
using end_to_end::EchoRequest;
using end_to_end::EndToEnd;
using end_to_end::Inline;
using end_to_end::kReplySeed;
using end_to_end::Pattern;

constexpr size_t kShortest = 64;
constexpr size_t kLongest = size_t{1} << 20;

// Room for several of the longest messages with their attachments, so that
// calls wait for memory now and then.
constexpr uint64_t kArenaBytes = uint64_t{16} << 20;
constexpr uint64_t kMessageBytesMax = uint64_t{4} << 20;

ChannelOptions ClientOptions() {
  ChannelOptions options;
  options.max_arena_bytes = kArenaBytes;
  options.max_send_message_bytes = kMessageBytesMax;
  options.max_receive_message_bytes = kMessageBytesMax;
  // Memory comes and goes all the time.
  options.memory_idle_time = absl::Milliseconds(100);
  return options;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  uint64_t Number(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t count) { return Number(count) == 0; }
  absl::Duration Time(absl::Duration shortest, absl::Duration longest) {
    return shortest + (longest - shortest) * (Number(1000) / 1000.0);
  }
  // Each doubling is as likely as the next.
  size_t Bytes() {
    const double doublings = std::log2(kLongest / kShortest);
    return static_cast<size_t>(kShortest *
                               std::exp2(doublings * Number(1000) / 999.0));
  }

 private:
  std::mt19937_64 random_;
};

[[noreturn]] void EndProcess(const std::string& finding) {
  std::fprintf(stderr, "unexpected: %s\n", finding.c_str());
  std::_Exit(3);
}

bool IsExpected(absl::StatusCode code) {
  return code == absl::StatusCode::kOk ||
         code == absl::StatusCode::kCancelled ||
         code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kUnavailable;
}

}  // namespace

void Tally::Count(absl::StatusCode code, absl::Duration overrun) {
  const base::MutexLock lock(mutex_);
  ++calls_[absl::StatusCodeToString(code)];
  overrun_ = std::max(overrun_, overrun);
  changed_.NotifyAll();
}

bool Tally::AwaitSuccesses(int64_t more, absl::Time deadline) {
  const base::MutexLock lock(mutex_);
  const int64_t wanted = calls_["OK"] + more;
  while (calls_["OK"] < wanted) {
    if (!changed_.WaitUntil(mutex_, deadline)) return calls_["OK"] >= wanted;
  }
  return true;
}

Figures Tally::figures() const {
  const base::MutexLock lock(mutex_);
  Figures figures = calls_;
  figures["overrun_us"] = absl::ToInt64Microseconds(overrun_);
  return figures;
}

// Shared by its caller and the callers that may be cancelling it.
struct Load::Call {
  // By base::Now().
  absl::Time due() {
    return internal::ClientCallState::Of(context).options().deadline();
  }

  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  std::shared_ptr<Channel> channel;
  absl::string_view attachment;
  bool inline_handler = false;
};

// Makes one call at a time.
class Load::Caller {
 public:
  Caller(Load* load, uint64_t seed) : load_(*load), draw_(seed) {}

  void RunBlocking() {
    while (!load_.stopping_) {
      const std::shared_ptr<Call> call = Prepare();
      End(*call, call->inline_handler
                     ? Inline::NewStub(call->channel)
                           ->Echo(&call->context, call->request, &call->reply)
                     : EndToEnd::NewStub(call->channel)
                           ->Echo(&call->context, call->request, &call->reply));
    }
    load_.CallerEnded();
  }

  void RunByCallbacks() {
    if (load_.stopping_) return load_.CallerEnded();
    const std::shared_ptr<Call> call = Prepare();
    Call* const raw = call.get();
    auto done = [this, call](const absl::Status& status) {
      End(*call, status);
      RunByCallbacks();
    };
    if (raw->inline_handler) {
      Inline::NewStub(raw->channel)
          ->async()
          ->Echo(&raw->context, &raw->request, &raw->reply, std::move(done));
    } else {
      EndToEnd::NewStub(raw->channel)
          ->async()
          ->Echo(&raw->context, &raw->request, &raw->reply, std::move(done));
    }
  }

  // Cancels what is open, if anything is. Any thread.
  void Cancel() {
    std::shared_ptr<Call> call;
    {
      const base::MutexLock lock(mutex_);
      call = open_;
    }
    if (call != nullptr) call->context.TryCancel();
  }

  // See Load::OpenOverrun(). Any thread.
  absl::Duration OpenOverrun() const {
    const base::MutexLock lock(mutex_);
    return open_ == nullptr ? absl::ZeroDuration() : base::Now() - due_;
  }

 private:
  std::shared_ptr<Call> Prepare() {
    const size_t channel = draw_.Number(kChannels);
    if (draw_.OneIn(200)) load_.ReplaceChannel(channel);
    if (draw_.OneIn(8)) {
      load_.callers_[draw_.Number(load_.callers_.size())]->Cancel();
    }
    auto call = std::make_shared<Call>();
    call->channel = load_.ChannelAt(channel);
    call->inline_handler = draw_.OneIn(2);
    call->request.set_payload(std::string(Piece(draw_.Bytes())));
    if (draw_.OneIn(4)) call->request.set_reply_bytes(draw_.Bytes());
    if (draw_.OneIn(8)) call->request.set_reply_attachment_bytes(draw_.Bytes());
    if (draw_.OneIn(3)) {
      call->attachment = Piece(draw_.Bytes());
      Buffer buffer = call->channel->AllocateBuffer(call->attachment.size());
      absl::c_copy(call->attachment, buffer.span().begin());
      call->context.set_request_attachment(std::move(buffer));
    }
    call->context.set_wait_for_ready(draw_.OneIn(2));
    call->context.set_timeout(
        draw_.OneIn(4)
            ? draw_.Time(absl::Milliseconds(1), absl::Milliseconds(20))
            : draw_.Time(absl::Milliseconds(100), absl::Seconds(2)));
    const base::MutexLock lock(mutex_);
    open_ = call;
    due_ = call->due();
    return call;
  }

  void End(Call& call, const absl::Status& status) {
    {
      const base::MutexLock lock(mutex_);
      open_ = nullptr;
    }
    load_.tally_.Count(status.code(), base::Now() - call.due());
    if (!IsExpected(status.code())) EndProcess(status.ToString());
    if (status.ok()) CheckReply(call);
  }

  static void CheckReply(const Call& call) {
    const EchoRequest& request = call.request;
    if (call.reply.payload() !=
        (request.reply_bytes() == 0
             ? request.payload()
             : Pattern(request.reply_bytes(), kReplySeed))) {
      EndProcess("another message came back");
    }
    const std::string attachment =
        request.reply_attachment_bytes() == 0
            ? std::string(call.attachment)
            : Pattern(request.reply_attachment_bytes(), kReplySeed);
    const absl::Span<const uint8_t> got = call.context.response_attachment();
    if (absl::string_view(reinterpret_cast<const char*>(got.data()),
                          got.size()) != attachment) {
      EndProcess("another attachment came back");
    }
  }

  absl::string_view Piece(size_t bytes) {
    return absl::string_view(load_.bytes_)
        .substr(draw_.Number(kLongest), bytes);
  }

  Load& load_;
  Draw draw_;

  mutable base::Mutex mutex_;
  std::shared_ptr<Call> open_ ABSL_GUARDED_BY(mutex_);
  absl::Time due_ ABSL_GUARDED_BY(mutex_);
};

Load::Load(std::string target, uint64_t seed, Tally* tally)
    : target_(std::move(target)),
      tally_(*tally),
      bytes_(Pattern(2 * kLongest, seed)) {
  for (size_t i = 0; i < kChannels; ++i) {
    channels_.push_back(CreateChannel(target_, ClientOptions()));
  }
  for (uint64_t i = 0; i < kBlockingCallers + kCallbackCallers; ++i) {
    callers_.push_back(std::make_unique<Caller>(this, seed * 100 + i));
  }
  for (size_t i = 0; i < callers_.size(); ++i) {
    Caller* const caller = callers_[i].get();
    if (i < kBlockingCallers) {
      threads_.emplace_back([caller] { caller->RunBlocking(); });
    } else {
      caller->RunByCallbacks();
    }
  }
}

Load::~Load() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  const base::MutexLock lock(mutex_);
  while (running_ > 0) changed_.Wait(mutex_);
}

absl::Duration Load::OpenOverrun() const {
  absl::Duration overrun;
  for (const std::unique_ptr<Caller>& caller : callers_) {
    overrun = std::max(overrun, caller->OpenOverrun());
  }
  return overrun;
}

void Load::CallerEnded() {
  const base::MutexLock lock(mutex_);
  if (--running_ == 0) changed_.NotifyAll();
}

std::shared_ptr<Channel> Load::ChannelAt(size_t index) const {
  const base::MutexLock lock(mutex_);
  return channels_[index];
}

void Load::ReplaceChannel(size_t index) {
  // The old channel is destroyed after the lock is released, because that may
  // take a while.
  std::shared_ptr<Channel> channel = CreateChannel(target_, ClientOptions());
  const base::MutexLock lock(mutex_);
  std::swap(channel, channels_[index]);
}

}  // namespace verbena::endurance
