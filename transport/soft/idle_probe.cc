// Measures what silent connections cost: many queue pairs on one completion
// queue, one of them busy. Not a test; prints and exits.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <vector>

#include "transport/base/check.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kConnections = 1000;
constexpr int kPolls = 20000;
constexpr std::chrono::milliseconds kUntilParked(500);

ibv_qp* AddQueuePair(TestEnd& end) {
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = end.cq;
  attributes.srq = end.srq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = 128;
  attributes.cap.max_send_sge = 4;
  attributes.cap.max_inline_data = 256;
  return end.verbs.create_qp(end.pd, &attributes);
}

double ResidentKib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

double PollNanoseconds(TestEnd& end) {
  ibv_wc completion;
  const auto start = Clock::now();
  for (int i = 0; i < kPolls; ++i) CHECK(!end.PollOnce(completion));
  return std::chrono::duration<double>(Clock::now() - start).count() * 1e9 /
         kPolls;
}

double RoundTripNanoseconds(TestEnd& hub, TestEnd& spoke) {
  const auto start = Clock::now();
  for (int i = 0; i < kPolls; ++i) {
    CHECK_EQ(spoke.Receive(0, 0, 64), 0);
    CHECK_EQ(hub.Send(0, 0, 64), 0);
    while (spoke.Wait(&hub).opcode != IBV_WC_RECV) {
    }
    CHECK_EQ(hub.Wait(&spoke).opcode, IBV_WC_SEND);
  }
  return std::chrono::duration<double>(Clock::now() - start).count() * 1e9 /
         kPolls;
}

void Run() {
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  TestEndOptions options;
  options.shared_receives = 16;
  TestEnd hub(options);
  TestEnd spoke(options);
  ibv_qp* const hub_own = hub.qp;
  ibv_qp* const spoke_own = spoke.qp;
  std::vector<ibv_qp*> qps;
  const double before = ResidentKib();
  for (int i = 0; i < kConnections; ++i) {
    qps.push_back(hub.qp = AddQueuePair(hub));
    qps.push_back(spoke.qp = AddQueuePair(spoke));
    CHECK(hub.qp != nullptr && spoke.qp != nullptr);
    ConnectManually(hub, spoke);
  }
  std::printf("%d connections: %.1f KiB resident for each (both ends)\n",
              kConnections, (ResidentKib() - before) / kConnections);
  std::printf("empty poll, while they are parked: %.0f ns\n",
              PollNanoseconds(hub));
  for (auto end = Clock::now() + kUntilParked; Clock::now() < end;) {
    hub.RunProtocol();
    spoke.RunProtocol();
  }
  std::printf("empty poll, afterwards: %.0f ns\n", PollNanoseconds(hub));
  std::printf("one way and acknowledgement, one busy, in one thread: %.0f ns\n",
              RoundTripNanoseconds(hub, spoke));
  for (ibv_qp* qp : qps) hub.verbs.destroy_qp(qp);
  hub.qp = hub_own;
  spoke.qp = spoke_own;
}

}  // namespace
}  // namespace verbena::soft

int main() { verbena::soft::Run(); }
