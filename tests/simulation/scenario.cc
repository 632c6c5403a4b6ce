#include "tests/simulation/scenario.h"

#include <infiniband/verbs.h>

#include <cerrno>

#include "tests/simulation/draw.h"
#include "transport/base/limits.h"

namespace verbena::simulation {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// The largest message or attachment: several fit the smallest arenas.
constexpr uint64_t kLargest = 300'000;

// Where calls, troubles and timeouts fall.
constexpr absl::Duration kRunTime = absl::Milliseconds(200);

// A length near the edges of the ways that a message can go.
uint64_t DrawBytes(Draw& draw) {
  switch (draw.Number(6)) {
    case 0:
      return draw.Number(64);
    case 1:
      return 100 + draw.Number(200);
    case 2:
      return transport::kBufferBytes - 200 + draw.Number(400);
    case 3:
      return draw.Number(2 * transport::kBufferBytes + 500);
    default:
      return draw.Number(kLargest);
  }
}

CallPlan DrawCall(Draw& draw, size_t channels) {
  CallPlan call;
  call.channel = draw.Number(channels);
  // Bursts, because calls that come one by one never wait for anything.
  call.start = draw.OneIn(2)
                   ? draw.Time(kRunTime)
                   : absl::Trunc(draw.Time(kRunTime), absl::Milliseconds(50));
  call.timeout = draw.OneIn(4) ? draw.Time(absl::Milliseconds(1))
                               : absl::Milliseconds(1) + draw.Time(kRunTime);
  if (draw.OneIn(5)) call.cancel = draw.Time(absl::Milliseconds(3));
  call.wait_for_ready = draw.OneIn(2);
  call.request_bytes = DrawBytes(draw);
  if (draw.OneIn(2)) call.reply_bytes = 1 + DrawBytes(draw);
  if (draw.OneIn(3)) call.request_attachment_bytes = DrawBytes(draw);
  if (draw.OneIn(4)) call.reply_attachment_bytes = DrawBytes(draw);
  return call;
}

Trouble DrawTrouble(Draw& draw, size_t channels) {
  constexpr Trouble::Kind kKinds[] = {
      Trouble::Kind::kCut, Trouble::Kind::kStall, Trouble::Kind::kRestart,
      Trouble::Kind::kDropChannel};
  Trouble trouble;
  trouble.kind = kKinds[draw.Number(4)];
  trouble.start = draw.Time(kRunTime);
  trouble.length = draw.Time(kRunTime);
  trouble.channel = draw.Number(channels);
  return trouble;
}

}  // namespace

Scenario::Scenario(uint64_t seed) {
  Draw draw(seed);
  channels.resize(1 + draw.Number(3));
  arena_bytes = kArenaBytesMin + draw.Number(3) * kMiB;
  bulk_bytes = kBulkBytesMin + draw.Number(4) * kMiB;
  for (uint64_t i = 0, count = 1 + draw.Number(60); i < count; ++i) {
    calls.push_back(DrawCall(draw, channels.size()));
  }
  if (!draw.OneIn(3)) {  // Else it is a harmless one.
    for (uint64_t i = 0, count = draw.Number(4); i < count; ++i) {
      troubles.push_back(DrawTrouble(draw, channels.size()));
    }
    if (draw.OneIn(2)) fault_seed = 1 + draw.Number(UINT64_MAX - 1);
  }
  checksum = draw.OneIn(4);
  for (ChannelPlan& channel : channels) {
    channel.checksum = draw.OneIn(3);
    channel.revoke_leases = draw.OneIn(2);
  }
}

void Scenario::AddFaults(transport::FaultPlan* plan) const {
  if (fault_seed == 0) return;
  // Delays of calls are left out: they take real time.
  constexpr const char* kFunctions[] = {
      "accept",        "create_cq",  "cm.create_qp", "disconnect",
      "get_cm_event",  "migrate_id", "modify_qp",    "post_srq_recv",
      "get_cq_event",  "poll_cq",    "post_send",    "reg_mr",
      "req_notify_cq", "reject"};
  constexpr int kErrors[] = {EAGAIN, EINVAL, EIO, ENOMEM};
  constexpr ibv_wc_status kStatuses[] = {
      IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR,
      IBV_WC_WR_FLUSH_ERR};
  Draw draw(fault_seed);
  for (uint64_t i = 0, count = 1 + draw.Number(4); i < count; ++i) {
    const uint64_t completion = 1 + draw.Number(150);
    switch (draw.Number(4)) {
      case 0:
        plan->FailCall(kFunctions[draw.Number(std::size(kFunctions))],
                       1 + draw.Number(60), kErrors[draw.Number(4)],
                       1 + draw.Number(3));
        break;
      case 1:
        plan->DropCompletion(completion);
        break;
      case 2:
        plan->DelayCompletion(completion,
                              static_cast<uint32_t>(draw.Number(100)));
        break;
      default:
        plan->FailCompletion(completion, kStatuses[draw.Number(4)]);
        break;
    }
  }
}

}  // namespace verbena::simulation
