// hot_path_calls N polling|sleeping BYTES: makes N blocking calls with so many
// bytes to a server in this process, for tests that watch a process from
// outside. Both sides poll all the time, or sleep whenever there is nothing to
// do.

#include <cstddef>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tests/integration/test_service.verbena.h"

namespace verbena::end_to_end {
namespace {

constexpr absl::Duration kForever = absl::Hours(1);

absl::Status MakeCalls(int calls, absl::Duration spin_budget, size_t bytes) {
  InlineService service;
  ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", &port)
      .RegisterService(&service)
      .SetSpinBudget(spin_budget);
  const absl::StatusOr<std::unique_ptr<Server>> server =
      builder.BuildAndStart();
  if (!server.ok()) return server.status();
  ChannelOptions options;
  options.spin_budget = spin_budget;
  const std::shared_ptr<Channel> channel =
      CreateChannel(absl::StrCat("127.0.0.1:", port), options);
  const std::unique_ptr<Inline::Stub> stub = Inline::NewStub(channel);
  EchoRequest request;
  request.set_payload(Pattern(bytes, 1));
  for (int i = 0; i < calls; ++i) {
    ClientContext context;
    EchoReply reply;
    absl::Status status = stub->Echo(&context, request, &reply);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace verbena::end_to_end

int main(int argc, char** argv) {
  int calls = 0;
  int bytes = 0;
  const std::string how = argc == 4 ? argv[2] : "";
  if ((how != "polling" && how != "sleeping") ||
      !absl::SimpleAtoi(argv[1], &calls) || calls < 1 ||
      !absl::SimpleAtoi(argv[3], &bytes) || bytes < 0) {
    std::cerr << "usage: hot_path_calls N polling|sleeping BYTES, N calls"
              << std::endl;
    return 2;
  }
  const absl::Status status = verbena::end_to_end::MakeCalls(
      calls,
      how == "polling" ? verbena::end_to_end::kForever : absl::ZeroDuration(),
      static_cast<size_t>(bytes));
  if (status.ok()) return 0;
  std::cerr << "hot_path_calls: " << status << std::endl;
  return 1;
}
