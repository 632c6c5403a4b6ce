#include "rpc/server_builder.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/credentials.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/server/server_impl.h"
#include "transport/base/limits.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

// More is a mistake in a unit, not a wish.
constexpr int kMaxThreads = 1024;
constexpr int kDefaultMaxWorkerThreads = 256;
constexpr int kMaxQueue = 1 << 24;

constexpr int64_t kLongestMessage = internal::kLongestMessageBytes;

absl::Status CheckRange(absl::string_view what, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ServerBuilder::", what, " is ", value, ", must be from ",
                   least, " to ", most));
}

absl::Status CheckPositive(absl::string_view what, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ServerBuilder::", what, " is ", absl::FormatDuration(value),
                   ", must be positive"));
}

int DefaultWorkerThreads() {
  return std::max(4, 2 * static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

ServerBuilder& ServerBuilder::AddListeningPort(absl::string_view address,
                                               int* selected_port) {
  return AddListeningPort(address, InsecureServerCredentials(), selected_port);
}

ServerBuilder& ServerBuilder::AddListeningPort(
    absl::string_view address, std::shared_ptr<ServerCredentials> credentials,
    int* selected_port) {
  ports_.push_back(
      {std::string(address), std::move(credentials), selected_port});
  return *this;
}

// Looks for what is missing: addresses, and objects that are null.
absl::Status ServerBuilder::ValidateServices() const {
  if (ports_.empty()) {
    return absl::InvalidArgumentError(
        "ServerBuilder: no address to listen at; call AddListeningPort()");
  }
  for (const Port& port : ports_) {
    if (port.credentials == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ServerBuilder: the credentials for ", port.address, " are null"));
    }
  }
  for (const Service* service : services_) {
    if (service == nullptr) {
      return absl::InvalidArgumentError("ServerBuilder: a service is null");
    }
  }
  for (const auto& factory : interceptors_) {
    if (factory == nullptr) {
      return absl::InvalidArgumentError(
          "ServerBuilder: a factory of interceptors is null");
    }
  }
  if (authorization_.has_value() && *authorization_ == nullptr) {
    return absl::InvalidArgumentError(
        "ServerBuilder: the provider of the authorization policy is null");
  }
  if (generic_services_.size() > 1) {
    return absl::AlreadyExistsError(absl::StrCat(
        "ServerBuilder: ", generic_services_.size(),
        " generic services are registered; a server can have only one"));
  }
  if (!generic_services_.empty() && generic_services_.front() == nullptr) {
    return absl::InvalidArgumentError(
        "ServerBuilder: the generic service is null");
  }
  return absl::OkStatus();
}

// Checks every number against a table of ranges. Options that were not set take
// part with a value that is in range.
absl::Status ServerBuilder::Validate() const {
  RETURN_IF_ERROR(ValidateServices());
  const struct {
    absl::string_view what;
    int64_t value, least, most;
  } ranges[] = {
      {"SetMaxReceiveMessageSize", max_receive_message_bytes_, 0,
       kLongestMessage},
      {"SetMaxSendMessageSize", max_send_message_bytes_, 0, kLongestMessage},
      {"SetMaxMetadataSize", max_metadata_bytes_, 0,
       transport::kMaxMetadataBytes},
      {"SetMaxStatusMessageSize", max_status_bytes_, 0,
       transport::kLongestStatusBytes},
      {"SetMaxConcurrentCallsPerConnection", max_connection_calls_, 1,
       transport::kMaxOpenCalls},
      {"SetMaxConcurrentCalls", max_calls_, 0, INT64_MAX},
      {"SetMaxConcurrentStreamsPerConnection", max_connection_streams_, 0,
       transport::kMaxOpenCalls},
      {"SetMaxConcurrentStreams", max_streams_, 0, INT64_MAX},
      {"SetMaxBulkBytes", max_bulk_bytes_.value_or(INT64_MAX),
       std::max(max_receive_message_bytes_, max_send_message_bytes_),
       INT64_MAX},
      {"SetMemoryFloorBytes", memory_floor_bytes_, 0, INT64_MAX},
      {"SetWorkerThreads", worker_threads_.value_or(1), 1, kMaxThreads},
      {"SetMaxWorkerThreads", max_worker_threads_.value_or(kMaxThreads),
       worker_threads_.value_or(1), kMaxThreads},
      {"SetWorkerQueueLimit", worker_queue_limit_, 1, kMaxQueue},
      {"SetPollers", pollers_, 1, kMaxThreads},
  };
  for (const auto& [what, value, least, most] : ranges) {
    RETURN_IF_ERROR(CheckRange(what, value, least, most));
  }
  RETURN_IF_ERROR(CheckPositive("SetMemoryIdleTime", memory_idle_time_));
  RETURN_IF_ERROR(CheckPositive("SetStallTimeout", stall_timeout_));
  if (dscp_ < -1 || dscp_ > transport::kDscpMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("ServerBuilder::SetDscp is ", dscp_,
                     ", must be -1 or at most ", transport::kDscpMax));
  }
  if (spin_budget_ < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ServerBuilder::SetSpinBudget is ", absl::FormatDuration(spin_budget_),
        ", must be 0 or more"));
  }
  return absl::OkStatus();
}

// Turns the fields into the options of ServerImpl and its endpoint. After the
// start, tells the ports that were chosen, and starts the extensions, which
// need a running server.
absl::StatusOr<std::unique_ptr<Server>> ServerBuilder::BuildAndStart() {
  RETURN_IF_ERROR(Validate());
  internal::ServerImpl::Options options;
  transport::EndpointOptions& endpoint = options.endpoint.endpoint;
  endpoint.device = device_;
  endpoint.dscp = dscp_;
  endpoint.max_receive_message_bytes = max_receive_message_bytes_;
  endpoint.max_send_message_bytes = max_send_message_bytes_;
  endpoint.max_metadata_bytes = static_cast<uint32_t>(max_metadata_bytes_);
  endpoint.max_open_calls = static_cast<uint32_t>(max_connection_calls_);
  endpoint.max_open_streams = static_cast<uint32_t>(max_connection_streams_);
  options.max_calls = max_calls_;
  options.max_streams = max_streams_;
  options.max_status_bytes = static_cast<size_t>(max_status_bytes_);
  transport::SetDefaultMemory(&endpoint);
  if (max_bulk_bytes_.has_value()) {
    endpoint.max_bulk_bytes = *max_bulk_bytes_;
  }
  endpoint.memory_floor_bytes = static_cast<uint64_t>(memory_floor_bytes_);
  endpoint.memory_idle_time = memory_idle_time_;
  endpoint.spin_budget = spin_budget_;
  endpoint.stall_timeout = stall_timeout_;
  endpoint.checksum = checksum_;
  options.endpoint.pollers = pollers_;
  for (const Port& port : ports_) {
    options.endpoint.addresses.push_back(port.address);
    options.endpoint.credentials.push_back(
        port.credentials->kind().empty() ? nullptr : port.credentials);
  }
  options.services = services_;
  std::vector<std::string> names;
  for (const Service* service : services_) {
    names.push_back(service->full_name());
  }
  // When all names are known: a service of reflection tells those that come
  // after it, too.
  for (const Service* service : services_) {
    if (service->on_services_ != nullptr) service->on_services_(names);
  }
  if (!generic_services_.empty()) {
    options.generic_service = generic_services_.front();
    // Only with a generic service: every call then carries its method's name.
    endpoint.method_names = true;
  }
  options.gate = {auth_metadata_processor_, authorization_.value_or(nullptr),
                  interceptors_};
  options.handler_mode = handler_mode_;
  const int most =
      std::max(max_worker_threads_.value_or(kDefaultMaxWorkerThreads),
               worker_threads_.value_or(1));
  options.workers.most = most;
  options.workers.kept =
      std::min(worker_threads_.value_or(DefaultWorkerThreads()), most);
  options.workers.queue_limit = worker_queue_limit_;
  ASSIGN_OR_RETURN(std::unique_ptr<internal::ServerImpl> impl,
                   internal::ServerImpl::Start(options));
  for (const auto& listening : impl->listening()) {
    if (int* port = ports_[listening.address_index].selected_port) {
      *port = listening.port;
    }
  }
  auto server = absl::WrapUnique(new Server(std::move(impl)));
  for (const ExtensionStarter& start : extensions_) {
    // A failure here destroys the server, which has served for a moment.
    ASSIGN_OR_RETURN(std::unique_ptr<ServerExtension> extension,
                     start(*server));
    server->extensions_.push_back(std::move(extension));
  }
  return server;
}

}  // namespace verbena
