#include "tests/conformance/differences.h"

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "tests/conformance/device.h"

namespace verbena::conformance {
namespace {

constexpr absl::string_view kRxe = "rxe";
constexpr absl::string_view kSoft = "soft";
constexpr absl::string_view kSoftByTcp = "soft_tcp";

constexpr Difference kDifferences[] = {
    {kRxe, Promise::kABusyChannelSetsErrno, "errno stays as it was",
     "the library counts the queues of a channel and does not ask the kernel"},
    {kRxe, Promise::kADestroyedQueuePairTakesItsBindings,
     "the window stays bound and keeps its region",
     "rxe unbinds a window only when that is asked of it"},
    {kRxe, Promise::kADrainedQueueFinishesWhatHasBegun,
     "it is drained while a message waits for its receiver",
     "rxe asks only whether it is sending, and retries no more"},
    {kRxe, Promise::kADrainedQueueGoesOnByItself, "with the next request",
     "the kernel does not look at the queue when its state changes"},
    {kRxe, Promise::kADrainedQueueIsAnEventIfThatIsWanted, "it always is",
     "rxe does not look at en_sqd_async_notify"},
    {kRxe, Promise::kAFullQueueIsOutOfMemoryToABatch, "ENOSPC",
     "the library has its own name for it"},
    {kRxe, Promise::kAGroupIsHeardOnItsOwnDevice, "it is not",
     "a packet to a group leaves by the interface, and none comes back"},
    {kRxe, Promise::kAListIsAsLongAsItsEntries,
     "the first length counts for all entries",
     "the library adds it as often as there are entries"},
    {kRxe, Promise::kALocalRequestMayFollowAMessageThatWaits,
     "neither of them ends",
     "rxe stands still when it has to try again what is before a binding"},
    {kRxe, Promise::kAShortAtomicIsALocalLengthError,
     "EINVAL when it is posted", "the library looks at the length itself"},
    {kRxe, Promise::kAHandleMayBeOfAnotherDomain, "LOC_QP_OP_ERR",
     "rxe compares the domains when it sends"},
    {kSoft, Promise::kAQueuePairMayBeItsOwnPeer,
     "what it sends to itself exceeds its retries",
     "a link has two ends, and a queue pair is one of them"},
    {kRxe, Promise::kANewWindowsKeyEndsInZeros, "it ends in anything",
     "rxe chooses the low bits too"},
    {kSoftByTcp, Promise::kARefusedWriteChangesNothing,
     "all segments are done that end within the region",
     "a segment of iWARP says where it goes, and not how long its message is"},
    {kRxe, Promise::kARefusedWriteTakesItsReceive, "REM_ACCESS_ERR there too",
     "rxe has one status for both ends"},
    {kRxe, Promise::kARegionMayBeBasedAtZero, "it is named by its address",
     "the library passes that on, and nobody looks at the flag"},
    {kRxe, Promise::kARegionMayBeEmpty, "EINVAL",
     "the kernel pins pages, and there are none"},
    {kRxe, Promise::kARegionMayBeginAtAnyAddress, "EINVAL",
     "the kernel wants an address with the same place in its page"},
    {kRxe, Promise::kAWindowEndsWhereItDoes, "where its region ends",
     "rxe checks the rights of a window and the bounds of its region"},
    {kRxe, Promise::kAlternatePathsAreTaken, "EINVAL",
     "the kernel takes alternate paths on InfiniBand alone, whatever the "
     "capabilities of a RoCE device say"},
    {kRxe, Promise::kAnEarlyMessageIsAnEvent, "no event",
     "rxe never raises COMM_EST"},
    {kRxe, Promise::kAnInlineListIsSent, "a message of nothing",
     "the library does not add up the lengths"},
    {kRxe, Promise::kAnInvalidationSetsItsFlag, "the key comes without it",
     "rxe sets the flag only in completions of the kernel's own users"},
    {kSoft, Promise::kCompletionEventsAreModerated, "EOPNOTSUPP",
     "whoever arms a queue sleeps for one event, not for several"},
    {kRxe, Promise::kCompletionEventsAreModerated, "EOPNOTSUPP",
     "the library of rxe has no modify_cq"},
    {kRxe, Promise::kCompletionsHaveTimes, "EOPNOTSUPP", "rxe has no clock"},
    {kRxe, Promise::kCompletionsVanishWithAReset,
     "they stay in the completion queue",
     "the queue is memory of the process, which the kernel does not search"},
    {kRxe, Promise::kDepthsAreRoundedUp, "they are what was asked for",
     "rxe makes the memory larger and not the depth"},
    {kRxe, Promise::kForbiddenInvalidationIsAnAccessError,
     "the sender is told of success",
     "rxe takes it for an error of the receiver alone"},
    {kRxe, Promise::kIndexOfAPartitionKeyIsChecked, "it is accepted",
     "rxe has one partition key and looks at no index"},
    {kRxe, Promise::kInlineDataNeedsNoFlag, "it needs IBV_SEND_INLINE",
     "the kernel looks only at the flag for where the data is"},
    {kRxe, Promise::kInvalidRequestIsAnEvent, "no event",
     "rxe answers with a NAK and tells its user nothing"},
    {kRxe, Promise::kLastReceiveOfASharedQueueIsAnEvent, "there is none",
     "rxe raises LAST_WQE_REACHED only when a peer's request fails"},
    {kRxe, Promise::kLocalKeyThatIsNoneIsAProtectionError, "LOC_QP_OP_ERR",
     "rxe tells only bounds from what else is wrong with an entry"},
    {kRxe, Promise::kMigrationStateIsChecked, "it is accepted",
     "rxe does not look at path_mig_state"},
    {kRxe, Promise::kOpcodeOfAnotherTypeIsRefused,
     "it is accepted and ends with LOC_QP_OP_ERR",
     "the library writes any opcode into the queue that the kernel reads"},
    {kRxe, Promise::kOverflowIsFatalToQueuePairs, "no event",
     "rxe tells only the completion queue"},
    {kRxe, Promise::kPollingToTheEndTakesWhatWasThere,
     "one more is taken that is not there",
     "next_poll and end_poll of the library both move on"},
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
    {kRxe, Promise::kRegionWithABoundWindowIsBusy, "EINVAL",
     "rxe has one errno for all it refuses"},
    {kRxe, Promise::kRegionsMayChange, "EOPNOTSUPP", "rxe has no rereg_mr"},
    {kRxe, Promise::kRequestInTheWrongStateIsNamed, "bad_wr is null",
     "the library looks at the state before it looks at a request"},
    {kRxe, Promise::kResetMayGoToError, "EINVAL",
     "the kernel's table of transitions has no way from RESET to ERR"},
    {kRxe, Promise::kResponderChecksAlignment, "EINVAL when it is posted",
     "the library looks at the address itself"},
    {kRxe, Promise::kTheDeviceHasMemory, "EOPNOTSUPP",
     "rxe is no adapter that could have some"},
    {kRxe, Promise::kTooLongAnUnreliableMessageIsLost, "its receive fails",
     "rxe calls every failure to copy into a receive malformed"},
    {kRxe, Promise::kTopBitOfAQkeyMeansTheSendersOwn, "it is sent as it is",
     "rxe puts any key into the packet"},
    {kRxe, Promise::kTypeOneMayBeBoundToNothing, "the process would crash",
     "the library reads the key of a region that is null"},
    {kRxe, Promise::kUnknownAttributesOfAQueueAreRefused, "they are accepted",
     "the library does not look at the mask"},
    {kRxe, Promise::kUnknownOpcodeIsRefused, "it is accepted",
     "the library writes any opcode into the queue that the kernel reads"},
    {kRxe, Promise::kADatagramErrorStopsTheSendQueueOnly,
     "the queue pair fails", "rxe knows no state SQE"},
    {kRxe, Promise::kNumberOfAQueuePairIsChecked, "it is accepted",
     "the kernel does not look at it"},
    {kRxe, Promise::kOnlyWhatIsSentIsInline,
     "the request is accepted and brings nothing",
     "the library does not look at the opcode"},
    {kRxe, Promise::kReadsThatCannotBeAreRefused, "they wait for ever",
     "rxe waits until one more may be outstanding"},
    {kRxe, Promise::kRoomIsKeptUntilACompletionIsPolled,
     "it is free when the request has ended",
     "the kernel frees it and not the library"},
    {kRxe, Promise::kServiceLevelsArrive, "it is zero",
     "rxe does not report it"},
    {kRxe, Promise::kSharedReceivesMayBeOfAnotherDomain,
     "LOC_QP_OP_ERR there, REM_OP_ERR at the sender",
     "rxe looks for their memory in the domain of the queue pair"},
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
