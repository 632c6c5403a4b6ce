// Takes the RDMA fabric away under load and brings it back, again and again.
// Calls must go on over TCP at once, run once each, and return what they sent.
//
//   flap_test --down=COMMAND --up=COMMAND --flaps=20
//   flap_test --serve=10.77.0.1:50053     a server for another host, which runs
//   flap_test --target=10.77.0.1:50053 --down=... --up=...
//
// Without commands there are no flaps, and a moment of the load is all. A call
// that is in progress when its connection ends fails with UNAVAILABLE, because
// it may have run. Every caller may lose --cuts calls so in each flap.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/metrics.h"
#include "rpc/rpc.h"
#include "tests/endurance/figures.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "tools/command_line/parse_flags.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

ABSL_FLAG(std::string, serve, "", "serve at this address, and test nothing");
ABSL_FLAG(std::string, target, "", "the server; default: one of its own");
ABSL_FLAG(std::string, down, "", "the command that takes the fabric away");
ABSL_FLAG(std::string, up, "", "the command that brings it back");
ABSL_FLAG(int, flaps, 10, "how often");
ABSL_FLAG(absl::Duration, during, absl::InfiniteDuration(),
          "begin no flap after this time");
ABSL_FLAG(absl::Duration, hold, absl::Milliseconds(50),
          "how long the fabric stays away at most");
ABSL_FLAG(int, cuts, 1, "how many calls a caller may lose in a flap");
ABSL_FLAG(bool, await_tcp, true,
          "bring the fabric back only when calls go over TCP");
ABSL_FLAG(absl::Duration, rdma_retry_interval, absl::Seconds(1),
          "ChannelOptions::rdma_retry_interval");
ABSL_FLAG(uint64_t, seed, 1, "draws the moments and the sizes");

namespace verbena::endurance {
namespace {

using end_to_end::Description;
using end_to_end::EchoReply;
using end_to_end::EchoRequest;
using end_to_end::EndToEnd;
using end_to_end::Item;
using end_to_end::Nothing;
using end_to_end::Pattern;
using end_to_end::StreamService;

constexpr char kIdKey[] = "call-id";  // Metadata: the number of a call.

// Time in which everything must happen that is awaited, on any machine. A call
// that takes longer counts as lost.
constexpr absl::Duration kPatience = absl::Seconds(60);

constexpr size_t kSizes[] = {64, 64, 64, 64, 64 << 10, 64 << 10, 1 << 20};
constexpr size_t kLongest = size_t{1} << 20;

// --- The server ---

// Counts how often each call has run.
class CountedCalls {
 public:
  void Count(const ServerContext& context) {
    const auto found = context.client_metadata().find(kIdKey);
    if (found == context.client_metadata().end()) return;
    const base::MutexLock lock(mutex_);
    if (!ids_.insert(std::string(found->second)).second) ++twice_;
  }
  void Describe(Description* reply) const {
    const base::MutexLock lock(mutex_);
    reply->add_facts(absl::StrCat("calls=", ids_.size(), " twice=", twice_));
  }

 private:
  mutable base::Mutex mutex_;
  absl::flat_hash_set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
  int64_t twice_ ABSL_GUARDED_BY(mutex_) = 0;
};

class CountingService final : public EndToEnd::Service {
 public:
  explicit CountingService(CountedCalls* calls) : calls_(*calls) {}

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    calls_.Count(*context);
    reply->set_payload(request->payload());
    return absl::OkStatus();
  }
  absl::Status Describe(ServerContext*, const Nothing*,
                        Description* reply) override {
    calls_.Describe(reply);
    return absl::OkStatus();
  }

 private:
  CountedCalls& calls_;
};

// Serves until SIGTERM, which the caller has blocked in all threads.
int Serve(const std::string& address, const sigset_t& signals) {
  CountedCalls calls;
  CountingService service(&calls);
  end_to_end::TestStreams streams;
  streams.set_chat([&calls](ServerContext* context, auto* stream) {
    calls.Count(*context);
    Item item;
    while (stream->Read(&item) && stream->Write(item)) {
    }
    return absl::OkStatus();
  });
  const absl::StatusOr<std::unique_ptr<Server>> server =
      ServerBuilder()
          .AddListeningPort(address)
          .RegisterService(&service)
          .RegisterService(&streams)
          .BuildAndStart();
  if (!server.ok()) {
    std::printf("%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("listening on %s\n",
              (*server)->listening().front().address.c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Shutdown(absl::Now() + absl::Seconds(1));
  return 0;
}

// --- The client ---

// Percentiles of times in milliseconds.
std::string Percentiles(std::vector<absl::Duration> times) {
  if (times.empty()) return "none";
  std::sort(times.begin(), times.end());
  const auto at = [&times](size_t percent) {
    return absl::ToDoubleMilliseconds(
        times[std::min(times.size() - 1, times.size() * percent / 100)]);
  };
  char text[100];
  std::snprintf(text, sizeof(text), "p50 %.1f ms, p99 %.1f ms, max %.1f ms",
                at(50), at(99), absl::ToDoubleMilliseconds(times.back()));
  return text;
}

// Callers that make calls without a pause, from the constructor to Stop().
class Load {
 public:
  struct Flap {                                   // Moments of the present one.
    absl::Time noticed = absl::InfiniteFuture();  // RDMA has failed.
    absl::Time mended = absl::InfiniteFuture();  // A later call has ended well.
  };

  explicit Load(std::shared_ptr<Channel> channel)
      : channel_(std::move(channel)), bytes_(Pattern(2 * kLongest, 1)) {
    for (size_t i = 0; i < kBlocking + kStreams; ++i) {
      threads_.emplace_back([this, i] {
        Caller caller(i);
        while (!stopping_) i < kBlocking ? Block(caller) : Chat(caller);
      });
    }
    for (size_t i = 0; i < kCallbacks; ++i) {
      StartNext(std::make_shared<Caller>(kBlocking + kStreams + i));
    }
  }

  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    const base::MutexLock lock(mutex_);
    while (callbacks_ > 0) changed_.Wait(mutex_);
  }

  void BeginFlap() {
    const base::MutexLock lock(mutex_);
    flap_ = {};
    cuts_by_caller_.clear();
  }
  void Notice() {
    const base::MutexLock lock(mutex_);
    flap_.noticed = std::min(flap_.noticed, absl::Now());
  }
  // Counts anew from now on.
  void AwaitCall() {
    const base::MutexLock lock(mutex_);
    flap_ = {.noticed = absl::Now()};
  }
  Flap flap() const {
    const base::MutexLock lock(mutex_);
    return flap_;
  }

  // Whether a call that began after the last notice has ended well.
  bool Goes() const { return flap().mended != absl::InfiniteFuture(); }

  std::string Describe() const {
    const base::MutexLock lock(mutex_);
    return absl::StrCat(ok_, " calls ended well, ", all_cut_, " were cut off, ",
                        lost_, " were lost, ", wrong_, " had wrong bytes");
  }
  bool Failed() const {
    const base::MutexLock lock(mutex_);
    return lost_ > 0 || wrong_ > 0;
  }

 private:
  static constexpr size_t kBlocking = 3;
  static constexpr size_t kStreams = 1;
  static constexpr size_t kCallbacks = 4;

  struct Caller {
    explicit Caller(size_t number)
        : number(number), random(absl::GetFlag(FLAGS_seed) * 100 + number) {}
    const size_t number;
    std::mt19937_64 random;
  };

  struct Call {
    absl::Time started = absl::Now();
    ClientContext context;
    EchoRequest request;
    EchoReply reply;
  };

  absl::string_view Piece(Caller& caller) const {
    const size_t size = kSizes[caller.random() % std::size(kSizes)];
    return absl::string_view(bytes_).substr(caller.random() % kLongest, size);
  }

  void Prepare(ClientContext* context) {
    context->AddMetadata(kIdKey, absl::StrCat(++ids_));
    context->set_wait_for_ready(true);
    context->set_timeout(kPatience);
  }

  void Block(Caller& caller) {
    Call call;
    Prepare(&call.context);
    call.request.set_payload(std::string(Piece(caller)));
    const absl::Status status =
        stub_->Echo(&call.context, call.request, &call.reply);
    End(caller, call.started, status,
        call.reply.payload() == call.request.payload());
  }

  // A stream of some messages, which fails like a call.
  void Chat(Caller& caller) {
    const absl::Time started = absl::Now();
    ClientContext context;
    Prepare(&context);
    const auto stream = streams_->Chat(&context);
    bool same = true;
    Item sent, received;
    for (int i = 0; i < 8; ++i) {
      sent.set_number(i);
      sent.set_payload(std::string(Piece(caller)));
      if (!stream->Write(sent) || !stream->Read(&received)) break;
      same = same && received.number() == sent.number() &&
             received.payload() == sent.payload();
    }
    stream->WritesDone();
    const absl::Status status = stream->Finish();
    End(caller, started, status, same);
  }

  void StartNext(const std::shared_ptr<Caller>& caller) {
    if (stopping_) {
      const base::MutexLock lock(mutex_);
      if (--callbacks_ == 0) changed_.NotifyAll();
      return;
    }
    const auto call = std::make_shared<Call>();
    Prepare(&call->context);
    call->request.set_payload(std::string(Piece(*caller)));
    stub_->async()->Echo(
        &call->context, &call->request, &call->reply,
        [this, caller, call](const absl::Status& status) {
          End(*caller, call->started, status,
              call->reply.payload() == call->request.payload());
          StartNext(caller);
        });
  }

  void End(const Caller& caller, absl::Time started, const absl::Status& status,
           bool same) {
    const absl::Time now = absl::Now();
    const base::MutexLock lock(mutex_);
    if (status.ok()) {
      ++ok_;
      if (!same) ++wrong_;
      if (started >= flap_.noticed) flap_.mended = std::min(flap_.mended, now);
      return;
    }
    flap_.noticed = std::min(flap_.noticed, now);
    const int cuts = ++cuts_by_caller_[caller.number];
    if (cuts <= absl::GetFlag(FLAGS_cuts) && absl::IsUnavailable(status)) {
      ++all_cut_;
      return;
    }
    ++lost_;
    std::printf("lost after %s: %s\n",
                absl::FormatDuration(now - started).c_str(),
                status.ToString().c_str());
  }

  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<EndToEnd::Stub> stub_ = EndToEnd::NewStub(channel_);
  const std::unique_ptr<StreamService::Stub> streams_ =
      StreamService::NewStub(channel_);
  const std::string bytes_;  // Source of payloads.
  std::atomic<uint64_t> ids_{0};
  std::atomic<bool> stopping_{false};

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  size_t callbacks_ ABSL_GUARDED_BY(mutex_) = kCallbacks;
  Flap flap_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<size_t, int> cuts_by_caller_ ABSL_GUARDED_BY(mutex_);
  int64_t ok_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t all_cut_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wrong_ ABSL_GUARDED_BY(mutex_) = 0;

  std::vector<std::thread> threads_;
};

class FlapTest : public testing::Test {
 protected:
  bool OverRdma() const { return channel_->GetMetrics().fabric == "rdma"; }

  static void LetPass(absl::Duration time) {
    base::Mutex mutex;
    base::CondVar never;
    const absl::Time until = base::Now() + time;
    const base::MutexLock lock(mutex);
    while (base::Now() < until) never.WaitUntil(mutex, until);
  }

  static bool Await(const std::function<bool()>& condition) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > deadline) return false;
      LetPass(absl::Milliseconds(1));
    }
    return true;
  }

  static void Run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  void Flap(Load& load) {
    LetPass(absl::Milliseconds(random_() % 30));
    load.BeginFlap();
    const absl::Time down = absl::Now();
    std::thread command([] { Run(absl::GetFlag(FLAGS_down)); });
    const bool mended = !absl::GetFlag(FLAGS_await_tcp) || Await([&] {
      if (!OverRdma()) load.Notice();
      return load.Goes();
    });
    command.join();
    EXPECT_TRUE(mended) << "no call ends well after "
                        << absl::FormatDuration(absl::Now() - down);
    if (absl::GetFlag(FLAGS_await_tcp) && mended) {
      const Load::Flap flap = load.flap();
      notice_.push_back(flap.noticed - down);
      gap_.push_back(flap.mended - flap.noticed);
      connected_.push_back(channel_->GetMetrics().fabric_since - flap.noticed);
    }
    LetPass(absl::GetFlag(FLAGS_hold) * (random_() % 100) / 100);
    Run(absl::GetFlag(FLAGS_up));
    const absl::Time up = absl::Now();
    EXPECT_TRUE(Await([this] { return OverRdma(); }))
        << "no way back: " << channel_->GetMetrics().fabric_reason;
    back_.push_back(absl::Now() - up);
    load.AwaitCall();
    EXPECT_TRUE(Await([&load] { return load.Goes(); }))
        << "no call ends well after the way back";
  }

  std::shared_ptr<Channel> channel_;
  std::mt19937_64 random_{absl::GetFlag(FLAGS_seed)};
  std::vector<absl::Duration> notice_;
  std::vector<absl::Duration> connected_;
  std::vector<absl::Duration> gap_;
  std::vector<absl::Duration> back_;
};

TEST_F(FlapTest, CallsGoOnOverTcpAndReturn) {
  std::string target = absl::GetFlag(FLAGS_target);
  std::unique_ptr<testing_support::ChildProcess> server;
  if (target.empty()) {
    server = std::make_unique<testing_support::ChildProcess>(
        std::vector<std::string>{
            "/proc/self/exe",
            absl::StrCat("--serve=", testing_support::TestAddress(), ":0")});
    target = testing_support::WordAfter("listening on ", server->ReadLine());
    ASSERT_NE(target, "") << server->errors();
  }
  ChannelOptions options;
  options.rdma_retry_interval = absl::GetFlag(FLAGS_rdma_retry_interval);
  channel_ = CreateChannel(target, options);
  ASSERT_TRUE(channel_->WaitForConnected(absl::Now() + kPatience));
  const bool flaps_wanted = !absl::GetFlag(FLAGS_down).empty();
  if (flaps_wanted) {
    ASSERT_TRUE(Await([this] { return OverRdma(); }))
        << channel_->GetMetrics().fabric_reason;
  }
  Load load(channel_);
  load.AwaitCall();
  EXPECT_TRUE(Await([&load] { return load.Goes(); }));
  const absl::Time begin = absl::Now();
  int flaps = 0;
  Figures footprint;
  while (flaps_wanted && flaps < absl::GetFlag(FLAGS_flaps) && !HasFailure() &&
         !load.Failed() && absl::Now() < begin + absl::GetFlag(FLAGS_during)) {
    Flap(load);
    // The pools have grown by then.
    if (++flaps == 3) footprint = OwnFootprint();
  }
  load.Stop();
  std::printf("%d flaps in %s: %s\n", flaps,
              absl::FormatDuration(absl::Now() - begin).c_str(),
              load.Describe().c_str());
  std::printf("noticed after the command began: %s\n",
              Percentiles(notice_).c_str());
  std::printf("connected over TCP after that: %s\n",
              Percentiles(connected_).c_str());
  std::printf("a later call ended well after that: %s\n",
              Percentiles(gap_).c_str());
  std::printf("over RDMA after the fabric was back: %s\n",
              Percentiles(back_).c_str());
  std::printf("after 3 flaps: %s\nat the end: %s\n", ToLine(footprint).c_str(),
              ToLine(OwnFootprint()).c_str());
  EXPECT_FALSE(load.Failed());
  ClientContext context;
  context.set_wait_for_ready(true);
  context.set_timeout(kPatience);
  Description description;
  ASSERT_TRUE(EndToEnd::NewStub(channel_)
                  ->Describe(&context, Nothing(), &description)
                  .ok());
  ASSERT_EQ(description.facts_size(), 1);
  std::printf("the server: %s\n", description.facts(0).c_str());
  EXPECT_EQ(testing_support::WordAfter("twice=", description.facts(0)), "0");
  if (server != nullptr) {
    server->Signal(SIGTERM);
    EXPECT_EQ(server->Wait(), 0) << server->errors();
  }
}

}  // namespace
}  // namespace verbena::endurance

int main(int argc, char** argv) {
  // Before any thread exists, so that only sigwait() sees it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  // The channel is to choose.
  unsetenv("VERBENA_DEVICE");
  testing::InitGoogleTest(&argc, argv);
  verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "flap_test",
       .about = " takes the RDMA fabric away under load\n"});
  if (!absl::GetFlag(FLAGS_serve).empty()) {
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return verbena::endurance::Serve(absl::GetFlag(FLAGS_serve), signals);
  }
  return RUN_ALL_TESTS();
}
