// Calls a server over one channel, when it is told to.
//
//   e2e_caller --target=10.78.0.1:50052
//
// Each line of standard input is a number of bytes, which a call of Echo sends
// and wants back. The program prints how the call ended: "OK", or the code and
// the message of its status. It ends at the end of its input.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tools/command_line/parse_flags.h"

ABSL_FLAG(std::string, target, "", "address and port of an e2e_server");
ABSL_FLAG(int, dscp, -1, "ChannelOptions::dscp");

namespace verbena::end_to_end {
namespace {

// A call that takes longer counts as hanging.
constexpr absl::Duration kPatience = absl::Seconds(120);

// Waits for a connection, so a call fails only if its own connection does.
absl::Status Echo(EndToEnd::Stub* stub, size_t bytes) {
  ClientContext context;
  context.set_wait_for_ready(true);
  context.set_timeout(kPatience);
  EchoRequest request;
  request.set_payload(Pattern(bytes, 1));
  EchoReply reply;
  absl::Status status = stub->Echo(&context, request, &reply);
  if (status.ok() && reply.payload() != request.payload()) {
    return absl::DataLossError("the reply is not what was sent");
  }
  return status;
}

void CallAsTold() {
  ChannelOptions options;
  options.dscp = absl::GetFlag(FLAGS_dscp);
  const auto stub =
      EndToEnd::NewStub(CreateChannel(absl::GetFlag(FLAGS_target), options));
  std::string line;
  uint32_t bytes = 0;
  while (std::getline(std::cin, line) && absl::SimpleAtoi(line, &bytes)) {
    std::printf("%s\n", Echo(stub.get(), bytes).ToString().c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace verbena::end_to_end

int main(int argc, char** argv) {
  verbena::tool::ReadCommandLine(
      argc, argv,
      {.name = "e2e_caller", .about = " calls an e2e_server as it is told\n"});
  verbena::end_to_end::CallAsTold();
  return 0;
}
