#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/client_context.h"
#include "rpc/client_reactor.h"
#include "tools/load/echo_loop.h"
#include "tools/load/meter.h"
#include "tools/rpc_bench/stream.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace verbena::bench {
namespace {

// The payload that all streams send: in the message, or beside it.
struct Sent {
  EchoRequest message;
  absl::Span<const uint8_t> beside;
};

// Receives the events of the streams.
class Listener {
 public:
  // A Move() of the stream in `slot` has ended. If `ok` is false, it has moved
  // no message, because the stream has ended or is about to.
  virtual void OnMessage(int slot, bool ok, const EchoReply& reply,
                         const Buffer& beside) = 0;
  virtual void OnStreamEnded(const absl::Status& status) = 0;

 protected:
  ~Listener() = default;
};

class Stream {
 public:
  Stream(Listener* listener, int slot, const Sent& sent, absl::Time deadline)
      : listener_(*listener), slot_(slot), sent_(sent) {
    context_.set_deadline(deadline);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Moves one message; OnMessage() follows. REQUIRES: no message is moving.
  virtual void Move() = 0;
  // Ends the stream, which moves no more messages; OnStreamEnded() follows.
  virtual void End() = 0;

 protected:
  void Tell(bool ok) { listener_.OnMessage(slot_, ok, reply_, beside_); }
  void TellEnded(const absl::Status& status) {
    listener_.OnStreamEnded(status);
  }

  ClientContext context_;
  Listener& listener_;
  const int slot_;
  const Sent& sent_;
  EchoReply reply_;
  Buffer beside_;
};

// Holds let Move() start operations outside of reactions. End() removes the
// hold, so that OnDone() comes.
class BidiStream final : public Stream,
                         public ClientBidiReactor<EchoRequest, EchoReply> {
 public:
  template <typename... Arguments>
  explicit BidiStream(Echo::Stub& stub, const Arguments&... arguments)
      : Stream(arguments...) {
    stub.async()->Chat(&context_, this);
    AddHold();
    StartCall();
  }
  void Move() override {
    StartRead(&reply_, &beside_);
    StartWrite(&sent_.message, sent_.beside);
  }
  void End() override {
    StartWritesDone();
    RemoveHold();
  }
  void OnReadDone(bool ok) override { Tell(ok); }
  void OnDone(const absl::Status& status) override { TellEnded(status); }
};

class ServerStream final : public Stream, public ClientReadReactor<EchoReply> {
 public:
  template <typename... Arguments>
  explicit ServerStream(Echo::Stub& stub, const Arguments&... arguments)
      : Stream(arguments...), request_(sent_.message) {
    // The server sends back what the request has, and is told to send it beside
    // the message.
    if (!sent_.beside.empty()) {
      request_.set_payload(sent_.beside.data(), sent_.beside.size());
      request_.set_beside(true);
    }
    stub.async()->Send(&context_, &request_, this);
    AddHold();
    StartCall();
  }
  void Move() override { StartRead(&reply_, &beside_); }
  // The server goes on until nobody reads.
  void End() override {
    context_.TryCancel();
    RemoveHold();
  }
  void OnReadDone(bool ok) override { Tell(ok); }
  void OnDone(const absl::Status& status) override {
    TellEnded(absl::IsCancelled(status) ? absl::OkStatus() : status);
  }

 private:
  EchoRequest request_;
};

class ClientStream final : public Stream,
                           public ClientWriteReactor<EchoRequest> {
 public:
  template <typename... Arguments>
  explicit ClientStream(Echo::Stub& stub, const Arguments&... arguments)
      : Stream(arguments...) {
    stub.async()->Receive(&context_, &received_, this);
    AddHold();
    StartCall();
  }
  void Move() override { StartWrite(&sent_.message, sent_.beside); }
  void End() override {
    StartWritesDone();
    RemoveHold();
  }
  void OnWriteDone(bool ok) override { Tell(ok); }
  void OnDone(const absl::Status& status) override { TellEnded(status); }

 private:
  ReceiveReply received_;
};

// A slot is a stream. As in RpcPipe, reactions run on another thread, and a
// lock is held whenever a function of this class or its sink runs.
class StreamCrowd final : public EchoPipe, private Listener {
 public:
  StreamCrowd(Echo::Stub& stub, const Case& measured, absl::Duration duration)
      : measured_(measured),
        payload_(Payload(measured.size_bytes)),
        moved_(measured.outstanding),
        open_(measured.outstanding) {
    if (measured.attachment) {
      sent_.beside = BytesOf(payload_);
    } else {
      sent_.message.set_payload(payload_);
    }
    const absl::Time deadline =
        base::ToWallClock(Schedule(measured, duration).deadline);
    for (int i = 0; i < measured.outstanding; ++i) {
      streams_.push_back(NewStream(stub, i, deadline));
    }
  }

  // Runs the measurement, waits for the messages that still move, and only then
  // ends the streams, one status for each.
  Sample Run(absl::Duration duration) {
    const base::MutexLock lock(mutex_);
    Sample sample = RunEchoes(*this, measured_, duration);
    // From here on messages end without telling the sink.
    sink_ = nullptr;
    while (under_way_ > 0) changed_.Wait(mutex_);
    const uint64_t all =
        std::accumulate(moved_.begin(), moved_.end(), uint64_t{0});
    if (all > 0) {
      sample.least_share =
          static_cast<double>(*std::min_element(moved_.begin(), moved_.end())) *
          static_cast<double>(moved_.size()) / static_cast<double>(all);
    }
    for (const auto& stream : streams_) stream->End();
    // The streams use this object until their last reaction.
    while (open_ > 0) changed_.Wait(mutex_);
    // The status of a stream says more than the errors counted here, which say
    // only that a stream has ended.
    if (!failure_.ok()) {
      sample.errors = std::max<uint64_t>(sample.errors, 1);
      sample.first_error = failure_;
    }
    return sample;
  }

  void Start(int slot) override {
    mutex_.AssertHeld();
    ++under_way_;
    streams_[slot]->Move();
  }

  absl::Status Poll(Sink& sink, absl::Time until) override {
    mutex_.AssertHeld();
    sink_ = &sink;
    if (under_way_ > 0) changed_.WaitUntil(mutex_, until);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Stream> NewStream(Echo::Stub& stub, int slot,
                                    absl::Time deadline) {
    Listener* const listener = this;
    switch (measured_.kind) {
      case Kind::kServer:
        return std::make_unique<ServerStream>(stub, listener, slot, sent_,
                                              deadline);
      case Kind::kClient:
        return std::make_unique<ClientStream>(stub, listener, slot, sent_,
                                              deadline);
      default:
        return std::make_unique<BidiStream>(stub, listener, slot, sent_,
                                            deadline);
    }
  }

  // Counts the message for its stream, and tells the sink if the measurement
  // still runs.
  void OnMessage(int slot, bool ok, const EchoReply& reply,
                 const Buffer& beside) override {
    const base::MutexLock lock(mutex_);
    --under_way_;
    absl::Status status = absl::UnavailableError("the stream has ended");
    if (ok) {
      ++moved_[slot];
      status =
          measured_.kind == Kind::kClient
              ? absl::OkStatus()
              : check_.Compare(measured_.attachment
                                   ? absl::Span<const uint8_t>(beside.span())
                                   : BytesOf(reply.payload()),
                               BytesOf(payload_));
    }
    if (sink_ != nullptr) {
      sink_->OnLater();
      sink_->OnEnded(slot, status);
    }
    if (under_way_ == 0) changed_.NotifyOne();
  }

  void OnStreamEnded(const absl::Status& status) override {
    const base::MutexLock lock(mutex_);
    // Copies the text, so that failure_ does not share memory with `status`,
    // which another thread releases.
    if (failure_.ok()) failure_ = absl::Status(status.code(), status.message());
    // Notifies with mutex_ held, because the object may be destroyed as soon as
    // the lock is released.
    if (--open_ == 0) changed_.NotifyOne();
  }

  const Case measured_;
  const std::string payload_;
  Sent sent_;
  std::vector<std::unique_ptr<Stream>> streams_;

  base::Mutex mutex_;
  base::CondVar changed_;
  EchoCheck check_ ABSL_GUARDED_BY(mutex_){/*every=*/false};
  Sink* sink_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> moved_ ABSL_GUARDED_BY(mutex_);  // By stream.
  size_t open_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

Sample RunStreamCrowd(Echo::Stub& stub, const Case& measured,
                      absl::Duration duration) {
  return StreamCrowd(stub, measured, duration).Run(duration);
}

}  // namespace verbena::bench
