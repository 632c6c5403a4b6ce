#include "rpc/internal/client/connector.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/base/socket_address.h"
#include "transport/device.h"
#include "transport/verbs/provider.h"

namespace verbena::internal {
namespace {

using base::SocketAddress;
using transport::EndpointOptions;

// What trying again can't mend keeps its code; everything else is UNAVAILABLE,
// whichever verb it was that failed.
absl::StatusCode CodeForCalls(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return code;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

absl::Status ForCalls(const absl::Status& status, const std::string& target) {
  return absl::Status(
      CodeForCalls(status.code()),
      absl::StrCat("no connection to ", target, ": ", status.message()));
}

}  // namespace

Connector::Connector(std::string target, const EndpointOptions& options,
                     std::function<void(Result)> on_done)
    : target_(std::move(target)),
      options_(options),
      on_done_(std::move(on_done)) {}

Connector::~Connector() {
  if (thread_.joinable()) thread_.join();
}

void Connector::Start() {
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this] { on_done_(Connect()); });
}

Connector::Result Connector::Connect() const {
  absl::StatusOr<std::vector<SocketAddress>> addresses =
      SocketAddress::Resolve(target_);
  if (!addresses.ok()) return ForCalls(addresses.status(), target_);
  absl::Status first_error;
  for (const SocketAddress& address : *addresses) {
    const transport::Provider& provider =
        transport::ChooseProvider(address, transport::WantedDevice(options_));
    Result result =
        transport::ClientConnection::Connect(provider, address, options_);
    if (result.ok()) return result;
    first_error.Update(result.status());
  }
  return ForCalls(first_error, target_);
}

}  // namespace verbena::internal
