#include "tools/gateway/gateway.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "rpc/channel.h"
#include "rpc/channel_options.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "tools/gateway/grpc_to_verbena.h"
#include "tools/gateway/verbena_to_grpc.h"
#include "transport/base/socket_address.h"
#include "transport/base/status_macros.h"

namespace verbena::gateway {
namespace {

constexpr char kGrpc[] = "grpc://";
constexpr char kVerbena[] = "verbena://";

// Calls that may be open on one Verbena connection. Calls take no threads of
// the gateway, so it leaves a lower limit to the client and the server.
constexpr int kMostCalls = 16384;

// For gRPC, which counts in int.
int MessageLimit(const GatewayOptions& options) {
  return static_cast<int>(options.max_message_bytes);
}

// Serves gRPC's clients, and calls a server of Verbena.
class FromGrpcGateway final : public Gateway {
 public:
  FromGrpcGateway(const GatewayOptions& options, absl::string_view to)
      : service_(CreateChannel(std::string(to), OptionsOf(options)),
                 options.wait_for_ready) {}

  // Starts gRPC's server with the generic service. The port stays 0 if it
  // cannot listen.
  absl::Status Listen(const GatewayOptions& options, absl::string_view from) {
    const std::string address(from);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port)
        .SetMaxReceiveMessageSize(MessageLimit(options))
        .SetMaxSendMessageSize(MessageLimit(options))
        .RegisterCallbackGenericService(&service_);
    // Otherwise two gateways could listen at one port, and each would get a
    // part of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat("gRPC cannot listen at ", address,
                       " (its own message is on standard error): is this an "
                       "address of this host, and is the port free?"));
    }
    address_ = absl::StrCat(from.substr(0, from.rfind(':')), ":", port);
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }
  void Shutdown(absl::Time deadline) override {
    server_->Shutdown(absl::ToChronoTime(deadline));
  }

 private:
  static ChannelOptions OptionsOf(const GatewayOptions& options) {
    ChannelOptions channel_options;
    channel_options.device = options.device;
    const auto bytes = static_cast<uint64_t>(options.max_message_bytes);
    channel_options.max_send_message_bytes = bytes;
    channel_options.max_receive_message_bytes = bytes;
    // The calls of all clients share this one connection.
    channel_options.max_concurrent_calls = kMostCalls;
    return channel_options;
  }

  // Before server_, which uses it until it is destroyed.
  GrpcToVerbena service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// Serves Verbena's clients, and calls a server of gRPC.
class FromVerbenaGateway final : public Gateway {
 public:
  FromVerbenaGateway(const GatewayOptions& options, absl::string_view to)
      : service_(grpc::CreateCustomChannel(std::string(to),
                                           grpc::InsecureChannelCredentials(),
                                           ArgumentsOf(options)),
                 options.wait_for_ready) {}

  absl::Status Listen(const GatewayOptions& options, absl::string_view from) {
    ServerBuilder builder;
    builder.AddListeningPort(from)
        .SetMaxReceiveMessageSize(options.max_message_bytes)
        .SetMaxSendMessageSize(options.max_message_bytes)
        .SetMaxConcurrentCallsPerConnection(kMostCalls)
        .RegisterGenericService(&service_);
    if (!options.device.empty()) builder.SetDevice(options.device);
    ASSIGN_OR_RETURN(server_, builder.BuildAndStart());
    return absl::OkStatus();
  }

  std::string address() const override {
    return server_->listening().front().address;
  }
  void Shutdown(absl::Time deadline) override { server_->Shutdown(deadline); }

 private:
  static grpc::ChannelArguments ArgumentsOf(const GatewayOptions& options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(MessageLimit(options));
    arguments.SetMaxSendMessageSize(MessageLimit(options));
    return arguments;
  }

  // Before server_, which uses it until it is destroyed.
  VerbenaToGrpc service_;
  std::unique_ptr<Server> server_;
};

absl::Status CheckAddress(const char* flag, absl::string_view address) {
  const absl::Status form =
      base::SocketAddress::CheckForm(address.substr(address.find("//") + 2));
  if (form.ok()) return form;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, "=", address, ": ", form.message()));
}

// Checks schemes first, because CheckAddress() looks behind "//". Last come the
// limits that gRPC sets.
absl::Status Check(const GatewayOptions& options) {
  for (const auto& [name, address] :
       {std::pair("--from", options.from), std::pair("--to", options.to)}) {
    if (!absl::StartsWith(address, kGrpc) &&
        !absl::StartsWith(address, kVerbena)) {
      return absl::InvalidArgumentError(absl::StrCat(name, "=", address,
                                                     " begins with neither ",
                                                     kGrpc, " nor ", kVerbena));
    }
  }
  // A --to address for gRPC is not checked, because it may be a name that only
  // gRPC can resolve.
  RETURN_IF_ERROR(CheckAddress("--from", options.from));
  if (absl::StartsWith(options.to, kVerbena)) {
    RETURN_IF_ERROR(CheckAddress("--to", options.to));
  }
  if (absl::StartsWith(options.from, kGrpc) ==
      absl::StartsWith(options.to, kGrpc)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from=", options.from, " and --to=", options.to,
                     " are of one kind: one has to be ", kGrpc,
                     " and the other ", kVerbena));
  }
  if (options.max_message_bytes < 1 ||
      options.max_message_bytes > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-message-bytes=", options.max_message_bytes,
                     " is not from 1 to ", std::numeric_limits<int>::max()));
  }
  return absl::OkStatus();
}

template <typename OneWay>
absl::StatusOr<std::unique_ptr<Gateway>> StartOneWay(
    const GatewayOptions& options, absl::string_view from,
    absl::string_view to) {
  auto gateway = std::make_unique<OneWay>(options, to);
  RETURN_IF_ERROR(gateway->Listen(options, from));
  return gateway;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Start(
    const GatewayOptions& options) {
  RETURN_IF_ERROR(Check(options));
  absl::string_view from = options.from;
  absl::string_view to = options.to;
  if (absl::ConsumePrefix(&from, kGrpc)) {
    absl::ConsumePrefix(&to, kVerbena);
    return StartOneWay<FromGrpcGateway>(options, from, to);
  }
  absl::ConsumePrefix(&from, kVerbena);
  absl::ConsumePrefix(&to, kGrpc);
  return StartOneWay<FromVerbenaGateway>(options, from, to);
}

}  // namespace verbena::gateway
