// Headers that anybody may have sent: of datagrams, of their routes, and of
// what other hosts say over TCP.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/soft/datagram/cm_datagram.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/global_route.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {
namespace {

void CheckAddress(const base::SocketAddress& address) {
  if (!address.empty()) CHECK(!address.ToString().empty());
}

void Check(fuzz::FuzzInput input, absl::Span<const uint8_t> all) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(all.data());
  DatagramHeader header;
  if (ReadDatagramHeader(bytes, all.size(), header)) {
    CHECK_LE(header.destination_qp, kMulticastQueuePair);
    CHECK_LE(header.source_qp, kMulticastQueuePair);
    const DatagramHeader wire = ToWire(header);
    DatagramHeader again;
    CHECK(ReadDatagramHeader(reinterpret_cast<const std::byte*>(&wire),
                             sizeof(wire), again));
    CHECK_EQ(again.qkey, header.qkey);
  }
  CmDatagram question;
  if (ReadCmDatagram(bytes, all.size(), question)) {
    CheckAddress(question.Source());
    CheckAddress(question.Destination());
  }
  switch (input.Below(4)) {
    case 0: {
      const auto route = ReadGlobalRoute(input.Take<ibv_grh>());
      if (route.has_value()) CHECK_LE(route->flow_label, 0xfffff);
      break;
    }
    case 1:
      CheckAddress(input.Take<CmMessage>().Destination());
      break;
    case 2:
      (void)input.Take<TcpPreamble>().IsLegal();
      break;
    default:
      break;
  }
}

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::soft::Check({data, size}, {data, size});
  return 0;
}
