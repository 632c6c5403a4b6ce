// Addresses as users write them, and as the kernel and peers give them.

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"

namespace verbena::base {
namespace {

// Checks that an address that was written as text is parsed as the same one.
void CheckRoundTrip(const SocketAddress& address) {
  const absl::StatusOr<SocketAddress> again =
      SocketAddress::ParseNumeric(address.ToString());
  CHECK(again.ok()) << again.status().ToString();
  CHECK_EQ(again->ToString(), address.ToString());
}

void Check(fuzz::FuzzInput input) {
  if (input.Bool()) {
    const absl::StatusOr<SocketAddress> parsed =
        SocketAddress::ParseNumeric(fuzz::AsText(input.Rest()));
    if (parsed.ok()) CheckRoundTrip(*parsed);
    return;
  }
  const auto raw = input.Take<sockaddr_storage>();
  SocketAddress address =
      SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&raw));
  (void)address.IsAny();
  (void)address.IsLoopback();
  if (address.empty()) return;
  CheckRoundTrip(address);
  address.set_port(input.Take<uint16_t>());
  CheckRoundTrip(address);
}

}  // namespace
}  // namespace verbena::base

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::base::Check({data, size});
  return 0;
}
