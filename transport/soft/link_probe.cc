// Measures the software device alone: two processes, pinned to two processors
// where there are two. Not a test; prints and exits. An argument names the one
// measurement to make: "rtt", "echo", "batch", "bulk", or "alone", which has
// both ends in one thread and so shows what the instructions cost.

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/check.h"
#include "transport/soft/connected/test_process_link.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using Clock = std::chrono::steady_clock;

// How long each measurement takes.
constexpr std::chrono::milliseconds kDuration(300);
constexpr size_t kSizes[] = {0, 64, 256, 1024, 4096, 16384, 65536};
constexpr size_t kLargest = 65536;
constexpr int kWindow = 32;
constexpr int kPollMax = 32;
constexpr int kChainMax = 16;
constexpr uint32_t kGoodbye = 3;
constexpr size_t kBulk = 1 << 20;

TestEndOptions Options() {
  TestEndOptions options;
  options.send_depth = options.receive_depth = 128;
  options.completions = 1024;
  options.memory_bytes = 16 << 20;
  options.inline_bytes = 64;
  return options;
}

void Pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);  // Best effort.
}

void PostReceives(TestEnd& end) {
  for (uint32_t i = 0; i < end.options.receive_depth; ++i) {
    CHECK_EQ(end.Receive(0, kLargest, kLargest), 0);
  }
}

ibv_wc Next(TestEnd& end) {
  ibv_wc completion;
  while (!end.PollOnce(completion)) {
  }
  CHECK_EQ(completion.status, IBV_WC_SUCCESS);
  return completion;
}

// Takes the next message, posts its receive again, and returns its length.
uint32_t WaitReceive(TestEnd& end) {
  ibv_wc completion;
  do {
    completion = Next(end);
  } while (completion.opcode != IBV_WC_RECV);
  CHECK_EQ(end.Receive(0, kLargest, kLargest), 0);
  return completion.byte_len;
}

unsigned int Flags(uint64_t i, size_t size) {
  return (i % 32 == 0 ? IBV_SEND_SIGNALED : 0) |
         (size <= 64 ? IBV_SEND_INLINE : 0);
}

// Sends and receives in chains, as the transport does.
class Chains {
 public:
  explicit Chains(TestEnd& end)
      : end_(end), receive_entry_(end.Entry(kLargest, kLargest)) {}

  // Takes completions. Returns how many messages came; `size` is set to the
  // length of the last one.
  int Take(uint32_t& size) {
    std::array<ibv_wc, kPollMax> completions;
    const int count = ibv_poll_cq(end_.cq, kPollMax, completions.data());
    int received = 0;
    for (int i = 0; i < count; ++i) {
      CHECK_EQ(completions[i].status, IBV_WC_SUCCESS);
      if (completions[i].opcode != IBV_WC_RECV) continue;
      size = completions[i].byte_len;
      ++received;
    }
    for (int left = received; left > 0; left -= kChainMax) {
      PostReceives(std::min(left, kChainMax));
    }
    return received;
  }

  // Sends `count` messages of `size` bytes.
  void Send(int count, uint32_t size) {
    for (; count > 0; count -= kChainMax) {
      SendChain(std::min(count, kChainMax), size);
    }
  }

 private:
  void PostReceives(int count) {
    std::array<ibv_recv_wr, kChainMax> chain;
    for (int i = 0; i < count; ++i) {
      chain[i] = {0, i + 1 < count ? &chain[i + 1] : nullptr, &receive_entry_,
                  1};
    }
    ibv_recv_wr* bad;
    CHECK_EQ(ibv_post_recv(end_.qp, chain.data(), &bad), 0);
  }

  void SendChain(int count, uint32_t size) {
    ibv_sge entry = end_.Entry(0, size);
    std::array<ibv_send_wr, kChainMax> chain;
    for (int i = 0; i < count; ++i) {
      ibv_send_wr& request = chain[i];
      request.wr_id = 0;
      request.next = i + 1 < count ? &chain[i + 1] : nullptr;
      request.sg_list = &entry;
      request.num_sge = 1;
      request.opcode = IBV_WR_SEND;
      request.send_flags = Flags(sent_++, size);
    }
    ibv_send_wr* bad;
    CHECK_EQ(ibv_post_send(end_.qp, chain.data(), &bad), 0);
  }

  TestEnd& end_;
  ibv_sge receive_entry_;
  uint64_t sent_ = 0;
};

// Answers every message with one of the same size, until one of kGoodbye bytes.
int Echo(TestEnd& end) {
  Chains chains(end);
  for (;;) {
    uint32_t size = 0;
    const int received = chains.Take(size);
    if (received == 0) continue;
    if (size == kGoodbye) return 0;
    chains.Send(received, size);
  }
}

void MeasureRoundTrips(TestEnd& end, size_t size) {
  std::vector<int64_t> nanoseconds;
  const auto stop = Clock::now() + kDuration;
  for (auto start = Clock::now(); start < stop;) {
    CHECK_EQ(end.Send(0, 0, size, Flags(nanoseconds.size(), size)), 0);
    WaitReceive(end);
    const auto now = Clock::now();
    nanoseconds.push_back((now - start) / std::chrono::nanoseconds(1));
    start = now;
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  std::printf("round trip %6zu B: p50 %6.2f us, p99 %6.2f us\n", size,
              nanoseconds[nanoseconds.size() / 2] / 1e3,
              nanoseconds[nanoseconds.size() * 99 / 100] / 1e3);
}

void PrintRate(const char* what, size_t size, int count,
               Clock::time_point start) {
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("echo %zu B, %d outstanding, %s: %.2f M/s\n", size, kWindow, what,
              count / seconds / 1e6);
}

void MeasureWindow(TestEnd& end, size_t size) {
  const auto start = Clock::now();
  int sent = 0;
  int received = 0;
  for (; Clock::now() < start + kDuration; ++received) {
    for (; sent < received + kWindow; ++sent) {
      CHECK_EQ(end.Send(0, 0, size, Flags(sent, size)), 0);
    }
    WaitReceive(end);
  }
  PrintRate("one by one", size, received, start);
  for (; received < sent; ++received) WaitReceive(end);
}

void MeasureChains(TestEnd& end, size_t size) {
  Chains chains(end);
  uint32_t got;
  const auto start = Clock::now();
  chains.Send(kWindow, size);
  int received = 0;
  while (Clock::now() < start + kDuration) {
    for (int i = 0; i < 64; ++i) {
      const int news = chains.Take(got);
      chains.Send(news, size);
      received += news;
    }
  }
  PrintRate("in chains", size, received, start);
  for (int left = kWindow; left > 0;) left -= chains.Take(got);
}

void MeasureAlone(size_t size) {
  TestEnd near(Options());
  TestEnd far(Options());
  ConnectManually(near, far);
  PostReceives(near);
  PostReceives(far);
  Chains there(far);
  Chains here(near);
  uint32_t got;
  const auto start = Clock::now();
  int sent = 0;
  int received = 0;
  while (Clock::now() < start + kDuration) {
    for (int i = 0; i < 64; ++i) {
      const int more = std::min(kChainMax, received + kWindow - sent);
      here.Send(more, size);
      sent += more;
      there.Send(there.Take(got), size);
      received += here.Take(got);
    }
  }
  PrintRate("alone", size, received, start);
}

// Measures transfers of `size` bytes, `window` of them outstanding at a time.
void MeasureBulk(TestEnd& end, const TestGreeting& peer, bool read, size_t size,
                 int window) {
  const auto start = Clock::now();
  int posted = 0;
  int done = 0;
  for (; done < posted || Clock::now() < start + kDuration; ++done) {
    for (; posted < done + window && Clock::now() < start + kDuration;
         ++posted) {
      const uint64_t remote = peer.address + (posted % 8) * kBulk;
      const size_t local = (2 + posted % 8) * kBulk;
      CHECK_EQ(read ? end.Read(0, local, size, remote, peer.rkey)
                    : end.Write(0, local, size, remote, peer.rkey),
               0);
    }
    while (Next(end).opcode == IBV_WC_SEND) {
    }
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s %4zu KiB, %d outstanding: %.2f GB/s, %.2f us each\n",
              read ? "READ " : "WRITE", size >> 10, window,
              static_cast<double>(size) * done / seconds / 1e9,
              seconds * 1e6 / done);
}

int Child(TestProcessLink& link) {
  Pin(1);
  TestEnd end(Options());
  std::memset(end.memory, 2, end.options.memory_bytes);
  link.Connect(end);
  PostReceives(end);
  const int result = Echo(end);
  link.Disconnect();
  return result;
}

void Run(std::string_view only) {
  const auto wanted = [only](std::string_view what) {
    return only.empty() || only == what;
  };
  Pin(0);
  if (wanted("alone")) {
    MeasureAlone(64);
    MeasureAlone(4096);
  }
  if (only == "alone") return;
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("echo");
  std::memset(end.memory, 1, end.options.memory_bytes);
  const TestGreeting peer = link.Connect(end);
  PostReceives(end);
  if (wanted("rtt")) {
    for (size_t size : kSizes) MeasureRoundTrips(end, size);
  }
  if (wanted("echo")) MeasureWindow(end, 64);
  if (wanted("batch")) {
    MeasureChains(end, 64);
    MeasureChains(end, 4096);
  }
  if (wanted("bulk")) {
    for (const bool read : {false, true}) {
      for (const size_t size : {kBulk / 16, kBulk}) {
        for (const int window : {1, 4}) {
          MeasureBulk(end, peer, read, size, window);
        }
      }
    }
  }
  CHECK_EQ(end.Send(0, 0, kGoodbye), 0);
  while (Next(end).opcode != IBV_WC_SEND) {
  }
  CHECK_EQ(link.WaitExit(), 0);
}

}  // namespace
}  // namespace verbena::soft

int main(int argc, char** argv) {
  verbena::soft::TestProcessLink::RunIfChild(argc, argv,
                                             {{"echo", verbena::soft::Child}});
  verbena::soft::Run(argc > 1 ? argv[1] : "");
}
