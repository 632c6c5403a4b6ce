#include "tests/conformance/differences.h"

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "tests/conformance/device.h"

namespace verbena::conformance {
namespace {

constexpr absl::string_view kRxe = "rxe";
constexpr absl::string_view kSoft = "soft";

constexpr Difference kDifferences[] = {
    {kSoft, Promise::kAQueuePairMayBeItsOwnPeer,
     "what it sends to itself exceeds its retries",
     "a link has two ends, and a queue pair is one of them"},
    {kRxe, Promise::kCompletionsVanishWithAReset,
     "they stay in the completion queue",
     "the queue is memory of the process, which the kernel does not search"},
    {kRxe, Promise::kIndexOfAPartitionKeyIsChecked, "it is accepted",
     "rxe has one partition key and looks at no index"},
    {kRxe, Promise::kLastReceiveOfASharedQueueIsAnEvent, "there is none",
     "rxe raises LAST_WQE_REACHED only when a peer's request fails"},
    {kRxe, Promise::kLocalKeyThatIsNoneIsAProtectionError, "LOC_QP_OP_ERR",
     "rxe tells only bounds from what else is wrong with an entry"},
    {kRxe, Promise::kQueryReportsTheCurrentState, "cur_qp_state is 0",
     "rxe keeps cur_qp_state only when modify_qp is given it"},
    {kRxe, Promise::kReadsAcceptedAreChecked, "it is accepted, with less",
     "rxe rounds max_dest_rd_atomic to what it has"},
    {kRxe, Promise::kReceiveInErrorIsFlushedAtOnce, "it stays in the queue",
     "posting a receive makes no system call, so the kernel does not see it"},
    {kRxe, Promise::kReceiverNamesWhatWasWrongWithItsReceive,
     "LOC_QP_OP_ERR there, REM_OP_ERR at the sender",
     "rxe calls every failure to copy into a receive malformed"},
    {kRxe, Promise::kRefusalIsAnAccessEvent, "no event",
     "rxe answers with a NAK and tells its user nothing"},
    {kRxe, Promise::kRequestInTheWrongStateIsNamed, "bad_wr is null",
     "the library looks at the state before it looks at a request"},
    {kRxe, Promise::kResetMayGoToError, "EINVAL",
     "the kernel's table of transitions has no way from RESET to ERR"},
    {kRxe, Promise::kUnknownOpcodeIsRefused, "it is accepted",
     "the library writes any opcode into the queue that the kernel reads"},
};

}  // namespace

absl::Span<const Difference> Differences() { return kDifferences; }

bool Keeps(Promise promise) {
  static const std::string* const device = new std::string(DeviceName());
  for (const Difference& difference : kDifferences) {
    if (difference.promise != promise ||
        !absl::StartsWith(*device, difference.device)) {
      continue;
    }
    std::printf("on %s instead: %s (%s)\n", device->c_str(),
                std::string(difference.instead).c_str(),
                std::string(difference.why).c_str());
    return false;
  }
  return true;
}

}  // namespace verbena::conformance
