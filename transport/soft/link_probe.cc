// Measures the software device alone: two processes, pinned to two processors
// where there are two. Not a test; prints and exits.

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/soft/test_end.h"
#include "transport/soft/test_process_link.h"

namespace verbena::soft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDuration(500);  // Of each measurement.
constexpr size_t kSizes[] = {0, 64, 256, 1024, 4096, 16384, 65536};
constexpr size_t kLargest = 65536;
constexpr int kWindow = 32;
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

// The length of the next message, whose receive is posted again.
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

// Answers every message with one of the same size, until one of kGoodbye bytes.
int Echo(TestEnd& end) {
  for (uint64_t i = 0;; ++i) {
    const uint32_t size = WaitReceive(end);
    if (size == kGoodbye) return 0;
    CHECK_EQ(end.Send(0, 0, size, Flags(i, size)), 0);
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
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  for (; received < sent; ++received) WaitReceive(end);
  std::printf("echo %zu B, %d outstanding: %.2f M/s\n", size, kWindow,
              received / seconds / 1e6);
}

void MeasureBulk(TestEnd& end, const TestGreeting& peer, bool read) {
  const auto start = Clock::now();
  int posted = 0;
  int done = 0;
  for (; done < posted || Clock::now() < start + kDuration; ++done) {
    for (; posted < done + 4 && Clock::now() < start + kDuration; ++posted) {
      const uint64_t remote = peer.address + (posted % 8) * kBulk;
      CHECK_EQ(read ? end.Read(0, 2 * kBulk, kBulk, remote, peer.rkey)
                    : end.Write(0, 2 * kBulk, kBulk, remote, peer.rkey),
               0);
    }
    while (Next(end).opcode == IBV_WC_SEND) {
    }
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s 1 MiB: %.2f GB/s\n", read ? "READ " : "WRITE",
              double{kBulk} * done / seconds / 1e9);
}

int Child(TestProcessLink& link) {
  Pin(1);
  TestEnd end(Options());
  link.Connect(end);
  PostReceives(end);
  const int result = Echo(end);
  link.Disconnect();
  return result;
}

void Run() {
  Pin(0);
  TestEnd end(Options());
  TestProcessLink link = TestProcessLink::Start("echo");
  std::memset(end.memory, 1, end.options.memory_bytes);
  const TestGreeting peer = link.Connect(end);
  PostReceives(end);
  for (size_t size : kSizes) MeasureRoundTrips(end, size);
  MeasureWindow(end, 64);
  MeasureBulk(end, peer, false);
  MeasureBulk(end, peer, true);
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
  verbena::soft::Run();
}
