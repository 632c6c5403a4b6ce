#include "rpc/internal/client/resolution.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::internal {
namespace {

constexpr char kFabricVariable[] = "VERBENA_FABRIC";

// The option wins over the environment.
absl::StatusOr<Fabric> WantedFabric(Fabric option) {
  const char* const variable = std::getenv(kFabricVariable);
  if (option != Fabric::kAny || variable == nullptr) return option;
  const absl::string_view text = variable;
  if (text.empty() || text == "any") return Fabric::kAny;
  if (text == "rdma") return Fabric::kRdma;
  if (text == "tcp") return Fabric::kTcp;
  return absl::FailedPreconditionError(
      absl::StrCat(kFabricVariable, " is \"", text,
                   "\", but must be \"any\", \"rdma\" or \"tcp\""));
}

absl::Status Contradicts(absl::string_view device, absl::string_view fabric) {
  return absl::FailedPreconditionError(
      absl::StrCat("the device \"", device, "\" is asked for, but also only ",
                   fabric, ", by ChannelOptions::fabric or ", kFabricVariable));
}

// The device to look for if only `fabric` may be used.
absl::StatusOr<std::string> DeviceFor(Fabric fabric,
                                      const std::string& wanted) {
  const bool soft = wanted == transport::kSoftDevice;
  if (fabric == Fabric::kRdma && soft) return Contradicts(wanted, "RDMA");
  if (fabric != Fabric::kTcp) return wanted;
  if (!soft && !wanted.empty()) return Contradicts(wanted, "TCP");
  return std::string(transport::kSoftDevice);
}

absl::Status NoRoute(absl::string_view target) {
  return absl::UnavailableError(absl::StrCat(
      "no RDMA device of this machine routes to ", target,
      ", and ChannelOptions::fabric or ", kFabricVariable,
      " wants RDMA alone; rdma_doctor --peer=", target, " may say why"));
}

absl::string_view Why(Fabric fabric, absl::string_view device,
                      const Resolution::Endpoint& endpoint) {
  if (fabric == Fabric::kRdma) return "RDMA alone is asked for";
  if (!device.empty()) return "the device is asked for";
  if (fabric == Fabric::kTcp) return "TCP alone is asked for";
  if (endpoint.is_rdma) return "an RDMA device routes there";
  if (endpoint.is_cheap) return "the server is on this host";
  return "no RDMA device routes there";
}

// Adds the endpoints of `target`, for `device` and `fabric`, of which
// `wanted_device` and the environment have become these.
absl::Status AddEndpoints(const std::string& target,
                          const std::string& wanted_device,
                          const std::string& device, Fabric fabric,
                          std::vector<Resolution::Endpoint>* endpoints) {
  ASSIGN_OR_RETURN(const std::vector<base::SocketAddress> addresses,
                   base::SocketAddress::Resolve(target));
  const size_t before = endpoints->size();
  for (const base::SocketAddress& address : addresses) {
    const transport::Provider& provider =
        transport::ChooseProvider(address, device);
    const bool is_rdma = transport::IsRdma(provider);
    if (fabric == Fabric::kRdma && !is_rdma) continue;
    const transport::Provider* const fallback =
        fabric == Fabric::kAny ? transport::FallbackFor(provider, device)
                               : nullptr;
    Resolution::Endpoint endpoint{
        .address = address,
        .provider = &provider,
        .is_rdma = is_rdma,
        .is_cheap = transport::IsCheapToAsk(provider, address),
        .has_fallback = fallback != nullptr,
        .target = target};
    endpoint.why = Why(fabric, wanted_device, endpoint);
    endpoints->push_back(std::move(endpoint));
    if (fallback != nullptr) {
      endpoints->push_back(
          {.address = address,
           .provider = fallback,
           .is_cheap = transport::IsCheapToAsk(*fallback, address),
           .is_fallback = true,
           .target = target});
    }
  }
  return endpoints->size() == before ? NoRoute(target) : absl::OkStatus();
}

}  // namespace

Resolution* Resolution::Start(SharedPoller* poller,
                              std::function<Result()> find,
                              std::function<void(Result)> on_done) {
  auto* const resolution =
      new Resolution(poller, std::move(find), std::move(on_done));
  // The channel may be gone before a name server answers: the task still needs
  // the poller's thread.
  poller->Pin();
  poller->PostInBackground(resolution);
  return resolution;
}

void Resolution::Run() {
  // Runs twice: on the background thread to look up, then on the owner of the
  // poller to tell.
  if (found_) return Tell();
  LookUp();
}

// Decides under the mutex whether anybody still waits. If so, the channel keeps
// the poller, and the pin is not needed any more.
void Resolution::LookUp() {
  result_ = find_();
  found_ = true;
  SharedPoller& poller = poller_;
  {
    const base::MutexLock lock(mutex_);
    if (!abandoned_) {
      poller.Unpin();
      // The thread that runs *this waits for the lock first.
      return poller.PostFromOutside(this);
    }
  }
  // Unpin() comes last, because the poller may end right after it.
  delete this;
  poller.Unpin();
}

// Looks once more: the channel may have given up while this was posted.
void Resolution::Tell() {
  bool abandoned;
  {
    const base::MutexLock lock(mutex_);
    abandoned = abandoned_;
  }
  if (!abandoned) on_done_(std::move(result_));
  delete this;
}

void Resolution::Abandon() {
  const base::MutexLock lock(mutex_);
  abandoned_ = true;
}

Resolution::Result FindEndpoints(const std::vector<std::string>& targets,
                                 const std::string& wanted_device,
                                 Fabric wanted_fabric) {
  ASSIGN_OR_RETURN(const Fabric fabric, WantedFabric(wanted_fabric));
  ASSIGN_OR_RETURN(const std::string device, DeviceFor(fabric, wanted_device));
  // First: no address can make up for a device that is not there.
  RETURN_IF_ERROR(transport::CheckDevice(device));
  std::vector<Resolution::Endpoint> endpoints;
  absl::Status error;
  for (const std::string& target : targets) {
    error.Update(
        AddEndpoints(target, wanted_device, device, fabric, &endpoints));
  }
  if (endpoints.empty()) return error;
  return endpoints;
}

}  // namespace verbena::internal
