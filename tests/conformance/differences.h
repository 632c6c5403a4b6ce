// Promises of the suite that a device is known to break, as data.
//
// A test states a promise of the verbs. If a device is known to break it, a row
// says so and why, and the test expects the behaviour of the row. So a device
// that changes fails the suite either way. No test is left out.

#ifndef VERBENA_TESTS_CONFORMANCE_DIFFERENCES_H_
#define VERBENA_TESTS_CONFORMANCE_DIFFERENCES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace verbena::conformance {

// Promises of the verbs, sorted by name.
enum class Promise {
  kABusyChannelSetsErrno,
  kADatagramErrorStopsTheSendQueueOnly,
  kADestroyedQueuePairTakesItsBindings,
  kADrainedQueueFinishesWhatHasBegun,
  kADrainedQueueGoesOnByItself,
  kADrainedQueueIsAnEventIfThatIsWanted,
  kAFullQueueIsOutOfMemoryToABatch,
  kAGroupIsHeardOnItsOwnDevice,
  kAHandleMayBeOfAnotherDomain,
  kAListIsAsLongAsItsEntries,
  kALocalRequestMayFollowAMessageThatWaits,
  kANewWindowsKeyEndsInZeros,
  kAQueuePairMayBeItsOwnPeer,
  kARefusedWriteChangesNothing,
  kARefusedWriteTakesItsReceive,
  kARegionMayBeBasedAtZero,
  kARegionMayBeEmpty,
  kARegionMayBeginAtAnyAddress,
  kAShortAtomicIsALocalLengthError,
  kAWindowEndsWhereItDoes,
  kAWindowsKeyIsTheDevices,
  kAlternatePathsAreTaken,
  kAnEarlyMessageIsAnEvent,
  kAnInlineListIsSent,
  kAnInvalidationSetsItsFlag,
  kCompletionEventsAreModerated,
  kCompletionsHaveTimes,
  kCompletionsVanishWithAReset,
  kDepthsAreRoundedUp,
  kForbiddenInvalidationIsAnAccessError,
  kIndexOfAPartitionKeyIsChecked,
  kInlineDataNeedsNoFlag,
  kInvalidRequestIsAnEvent,
  kLastReceiveOfASharedQueueIsAnEvent,
  kLocalKeyThatIsNoneIsAProtectionError,
  kMigrationStateIsChecked,
  kNumberOfAQueuePairIsChecked,
  kOnlyWhatIsSentIsInline,
  kOpcodeOfAnotherTypeIsRefused,
  kOverflowIsFatalToQueuePairs,
  kPollingToTheEndTakesWhatWasThere,
  kQueryReportsTheCurrentState,
  kReadsAcceptedAreChecked,
  kReadsThatCannotBeAreRefused,
  kReceiveInErrorIsFlushedAtOnce,
  kReceiverNamesWhatWasWrongWithItsReceive,
  kRefusalIsAnAccessEvent,
  kRegionWithABoundWindowIsBusy,
  kRegionsMayChange,
  kRemoteErrorsComeFirst,
  kRequestInTheWrongStateIsNamed,
  kResetMayGoToError,
  kResponderChecksAlignment,
  kRoomIsKeptUntilACompletionIsPolled,
  kServiceLevelsArrive,
  kSharedReceivesMayBeOfAnotherDomain,
  kTheDeviceHasMemory,
  kTooLongAnUnreliableMessageIsLost,
  kTopBitOfAQkeyMeansTheSendersOwn,
  kTypeOneMayBeBoundToNothing,
  kUnknownAttributesOfAQueueAreRefused,
  kUnknownOpcodeIsRefused,
};

struct Difference {
  // The name of the device begins so: "soft", "rxe". What is true of "soft" is
  // true of "soft_tcp", too.
  absl::string_view device;
  Promise promise;
  absl::string_view instead;  // The device's behaviour.
  absl::string_view why;
};

absl::Span<const Difference> Differences();

// Whether the device under test keeps `promise`. Says so in the test's output
// if it does not.
bool Keeps(Promise promise);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_DIFFERENCES_H_
