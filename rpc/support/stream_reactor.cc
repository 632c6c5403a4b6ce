#include "rpc/support/stream_reactor.h"

#include "transport/base/check.h"

namespace verbena::internal {

void Fail(const char* why) {
  CHECK(false) << why;
  __builtin_unreachable();
}

}  // namespace verbena::internal
