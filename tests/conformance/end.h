// End, one end of a connection on the device under test.

#ifndef VERBENA_TESTS_CONFORMANCE_END_H_
#define VERBENA_TESTS_CONFORMANCE_END_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "tests/conformance/device.h"
#include "transport/verbs/test_end.h"

namespace verbena::conformance {

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

using transport::kTestQkey;

struct EndOptions : transport::TestEndOptions {
  // Half a second for each try: on a busy machine a first message may have to
  // wait until a connection to another host is made.
  EndOptions() { timeout = 17; }
};

// Options of an End whose region and queue pair allow atomics, too.
EndOptions WithAtomics();
// Options of an End with memory for the longest messages of the suite.
EndOptions Large();

class End : public transport::TestEnd {
 public:
  explicit End(const EndOptions& options = {}) : End(OpenDevice(), options) {}

 private:
  End(ibv_context* context, const EndOptions& options)
      : TestEnd(Verbs(), context, FindGid(context), options) {}
};

// An End for datagrams that is ready to send.
class DatagramEnd : public End {
 public:
  explicit DatagramEnd(EndOptions options = {});
};

// Returns the word that the device has written at `offset` by now. The write
// has no completion, so a sanitizer sees a race with the device's thread.
uint64_t WordByNow(End& end, size_t offset);

// Bytes of the GRH in front of each datagram that is received.
inline constexpr size_t kGrhBytes = sizeof(ibv_grh);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_END_H_
