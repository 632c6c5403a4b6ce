#include "tools/verbena/commands.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ext/stdio_filebuf.h>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/health/v1/health.verbena.h"
#include "rpc/client_context.h"
#include "rpc/metadata.h"
#include "rpc/metrics.h"
#include "tools/verbena/json_call.h"
#include "tools/verbena/schema.h"
#include "tools/verbena/shown_text.h"
#include "transport/base/status_macros.h"

namespace verbena::tool {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using HealthStub = grpc::health::v1::Health::Stub;

// Prints the error, and returns the exit code of a call that ended with it.
int Fail(const absl::Status& status) {
  std::cerr << "verbena: " << absl::StatusCodeToString(status.code()) << ": "
            << ShownText(status.message()) << std::endl;
  return kCallFailed + static_cast<int>(status.code());
}

// As Fail(), but returns kUsage if the user may have named something that does
// not exist.
int FailToFind(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsInvalidArgument(status)) {
    return Fail(status);
  }
  // Prints no name of the status code: the user's argument is wrong, even if
  // the server has found that out.
  std::cerr << "verbena: " << ShownText(status.message()) << std::endl;
  return kUsage;
}

// Files win over the server's reflection, which it may not have.
absl::StatusOr<std::unique_ptr<Schema>> SchemaOf(const Options& options) {
  if (options.proto_files.empty()) {
    return Schema::FromServer(options.channel, options.timeout);
  }
  return Schema::FromFiles(options.proto_files, options.import_dirs);
}

void PrepareContext(const Options& options, ClientContext* context) {
  context->set_timeout(options.timeout);
  for (const auto& [key, value] : options.metadata) {
    context->AddMetadata(key, value);
  }
}

// Reads the attachment that `input` names into `bytes`, and has the call send
// it. `bytes` must outlive the call. Fails if the attachment cannot be read, if
// the response's could not be written, or if the method streams.
absl::Status PrepareAttachment(const google::protobuf::MethodDescriptor& method,
                               const CallInput& input, std::string* bytes,
                               ClientContext* context) {
  if (input.attachment.empty() && input.response_attachment.empty()) {
    return absl::OkStatus();
  }
  if (method.client_streaming() || method.server_streaming()) {
    return absl::InvalidArgumentError(
        absl::StrCat(method.full_name(),
                     " streams; --attachment and --response-attachment "
                     "are for methods that do not"));
  }
  // Checks this before the call, because the call may have effects that cannot
  // be repeated.
  if (!input.response_attachment.empty() &&
      !std::ofstream(input.response_attachment, std::ios::app)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--response-attachment: ", input.response_attachment,
                     " can't be written"));
  }
  if (input.attachment.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(*bytes, ReadFile("attachment", input.attachment));
  context->set_request_attachment(absl::Span<const uint8_t>(
      reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()));
  return absl::OkStatus();
}

// Writes the attachment to the file `path`. If that is empty, prints that there
// is an attachment. Returns the exit code.
int KeepAttachment(absl::Span<const uint8_t> attachment,
                   const std::string& path) {
  if (path.empty()) {
    if (!attachment.empty()) {
      std::cerr << "verbena: the response has an attachment of "
                << attachment.size()
                << " bytes; --response-attachment=FILE keeps it" << std::endl;
    }
    return kDone;
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(attachment.data()),
             static_cast<std::streamsize>(attachment.size()));
  file.close();
  if (file) return kDone;
  std::cerr << "verbena: --response-attachment: " << path << " can't be written"
            << std::endl;
  return kUsage;
}

// Values of -bin keys are bytes, so they are shown in Base64.
void ShowMetadata(absl::string_view which, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    std::cerr << which << " metadata: " << ShownLine(key) << ": "
              << (absl::EndsWith(key, "-bin") ? absl::Base64Escape(value)
                                              : ShownLine(value))
              << std::endl;
  }
}

// "package.Service/Method (stream package.Request) returns (package.Response)"
std::string Signature(const google::protobuf::MethodDescriptor& method) {
  return ShownLine(absl::StrCat(method.service()->full_name(), "/",
                                method.name(), " (",
                                method.client_streaming() ? "stream " : "",
                                method.input_type()->full_name(), ") returns (",
                                method.server_streaming() ? "stream " : "",
                                method.output_type()->full_name(), ")"));
}

// A later version of the protocol may have statuses without a name here.
std::string NameOf(HealthCheckResponse::ServingStatus status) {
  const std::string& name = HealthCheckResponse::ServingStatus_Name(status);
  return name.empty() ? absl::StrCat("status ", static_cast<int>(status))
                      : name;
}

// Every status but SERVING counts as not serving, also one of a later version.
int CodeOf(HealthCheckResponse::ServingStatus status) {
  return status == HealthCheckResponse::SERVING ? kDone : kNotServing;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(absl::string_view flag,
                                     const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::optional<std::string> bytes;
  if (file) bytes = ReadAll(file);
  if (bytes.has_value()) return *std::move(bytes);
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": ", path, " can't be read"));
}

// Asks the schema for its services, or for the file with the service, whose
// methods it then prints.
int List(const Options& options, const std::string& service) {
  const auto schema = SchemaOf(options);
  if (!schema.ok()) return FailToFind(schema.status());
  if (service.empty()) {
    const auto services = (*schema)->Services();
    if (!services.ok()) return Fail(services.status());
    for (const std::string& name : *services) {
      std::cout << ShownLine(name) << "\n";
    }
    return kDone;
  }
  const auto file = (*schema)->FindFile(service);
  if (!file.ok()) return FailToFind(file.status());
  const auto* const found = (*file)->pool()->FindServiceByName(service);
  if (found == nullptr) {
    return FailToFind(absl::InvalidArgumentError(absl::StrCat(
        "\"", service,
        "\" is not a service; `verbena describe` shows what it is")));
  }
  for (int i = 0; i < found->method_count(); ++i) {
    std::cout << Signature(*found->method(i)) << "\n";
  }
  return kDone;
}

int Describe(const Options& options, const std::string& symbol) {
  const auto schema = SchemaOf(options);
  if (!schema.ok()) return FailToFind(schema.status());
  const auto text = (*schema)->Describe(symbol);
  if (!text.ok()) return FailToFind(text.status());
  std::cout << ShownText(*text);
  return kDone;
}

// Prepares everything that can fail without a call: schema, attachment, input.
// Then it makes the call, and keeps what came with the response.
int Call(const Options& options, const std::string& method,
         const CallInput& input) {
  const auto schema = SchemaOf(options);
  if (!schema.ok()) return FailToFind(schema.status());
  const auto found = (*schema)->FindMethod(method);
  if (!found.ok()) return FailToFind(found.status());
  ClientContext context;
  PrepareContext(options, &context);
  std::string attachment;
  const absl::Status prepared =
      PrepareAttachment(**found, input, &attachment, &context);
  if (!prepared.ok()) return FailToFind(prepared);
  // Requests that a person types may take any time.
  if (input.data == "-" && (*found)->client_streaming() &&
      !options.timeout_given) {
    context.set_timeout(absl::InfiniteDuration());
  }
  std::istringstream given(input.data);
  if (absl::StartsWith(input.data, "@")) {
    absl::StatusOr<std::string> text = ReadFile("data", input.data.substr(1));
    if (!text.ok()) return FailToFind(text.status());
    given.str(*std::move(text));
  }
  // Unlike std::cin, this reports read errors.
  __gnu_cxx::stdio_filebuf<char> standard_input(STDIN_FILENO, std::ios::in);
  std::istream typed(&standard_input);
  if (!standard_input.is_open()) typed.setstate(std::ios::badbit);
  bool bad_input = false;
  const absl::Status status =
      JsonCall(options.channel, *found, &context)
          .Run(input.data == "-" ? typed : given, std::cout, &bad_input);
  if (bad_input) return FailToFind(status);
  if (input.verbose) {
    ShowMetadata("initial", context.GetServerInitialMetadata());
    ShowMetadata("trailing", context.GetServerTrailingMetadata());
  }
  if (!status.ok()) return Fail(status);
  return KeepAttachment(context.response_attachment(),
                        input.response_attachment);
}

// With --watch it prints changes until the call ends.
int Health(const Options& options, const std::string& service, bool watch) {
  HealthStub stub(options.channel);
  ClientContext context;
  PrepareContext(options, &context);
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  if (!watch) {
    const absl::Status status = stub.Check(&context, request, &response);
    if (!status.ok()) return Fail(status);
    std::cout << NameOf(response.status()) << std::endl;
    return CodeOf(response.status());
  }
  const auto reader = stub.Watch(&context, request);
  while (reader->Read(&response)) {
    std::cout << NameOf(response.status()) << std::endl;
  }
  const absl::Status status = reader->Finish();
  return status.ok() ? kDone : Fail(status);
}

// The first call connects, so its time is shown apart and not counted.
int Ping(const Options& options, int count) {
  HealthStub stub(options.channel);
  std::vector<absl::Duration> times;
  for (int i = 0; i <= count; ++i) {
    ClientContext context;
    PrepareContext(options, &context);
    HealthCheckResponse response;
    const absl::Time start = absl::Now();
    const absl::Status status = stub.Check(&context, {}, &response);
    const absl::Duration time = absl::Now() - start;
    // A server without the Health service answers with one of these two codes.
    if (!status.ok() && !absl::IsUnimplemented(status) &&
        !absl::IsNotFound(status)) {
      return Fail(status);
    }
    if (i == 0) {
      const ChannelMetrics metrics = options.channel->GetMetrics();
      std::cout << absl::StrFormat(
          "connected to %s via %s (%s: %s), and had an answer, in %.1f us\n",
          context.peer(), metrics.device, metrics.fabric, metrics.fabric_reason,
          absl::ToDoubleMicroseconds(time));
      continue;
    }
    times.push_back(time);
    std::cout << absl::StrFormat("%d: %.1f us, %s\n", i,
                                 absl::ToDoubleMicroseconds(time),
                                 context.peer());
  }
  if (times.empty()) return kDone;
  std::sort(times.begin(), times.end());
  std::cout << absl::StrFormat(
      "%d calls: least %.1f us, median %.1f us, most %.1f us\n", count,
      absl::ToDoubleMicroseconds(times.front()),
      absl::ToDoubleMicroseconds(times[times.size() / 2]),
      absl::ToDoubleMicroseconds(times.back()));
  return kDone;
}

namespace {

// The state of a server, in the words of PrintServers().
absl::string_view ServerState(const ChannelServerMetrics& server) {
  if (!server.connected) return ChannelStateName(server.state);
  if (!server.healthy) return "NOT HEALTHY";
  return server.ejected ? "EJECTED" : ChannelStateName(server.state);
}

std::string ServerWeight(const ChannelServerMetrics& server) {
  return server.load_weight > 0
             ? absl::StrFormat("%.4g by load", server.load_weight)
             : absl::StrCat(server.weight);
}

void PrintServers(const Channel& channel) {
  const std::vector<ChannelServerMetrics> servers =
      channel.GetMetrics().servers;
  size_t width = 0;
  for (const auto& server : servers) {
    width = std::max(width, server.address.size());
  }
  for (const auto& server : servers) {
    std::cout << absl::StrFormat(
        "%-*s  %-17s  weight %s, %d calls, %d open  %s\n",
        static_cast<int>(width), server.address, ServerState(server),
        ServerWeight(server), server.calls, server.open_calls,
        server.connected ? absl::StrCat(server.fabric, " on ", server.device)
                         : server.error);
  }
}

// Waits until nobody reads standard output any more, but not for longer than
// `time`. Returns whether that is so.
bool ReaderIsGoneWithin(absl::Duration time) {
  std::cout.flush();
  pollfd output = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) >
         0;
}

// Whether each server is connected, or has failed.
bool IsSettled(const Channel& channel) {
  const std::vector<ChannelServerMetrics> servers =
      channel.GetMetrics().servers;
  return std::all_of(servers.begin(), servers.end(), [](const auto& server) {
    return server.connected || !server.error.empty();
  });
}

}  // namespace

// A call that fails says why there is no server, which the metrics do not.
int ShowChannel(const Options& options, bool watch) {
  HealthStub stub(options.channel);
  ClientContext context;
  PrepareContext(options, &context);
  HealthCheckResponse response;
  const absl::Status status = stub.Check(&context, {}, &response);
  if (options.channel->GetMetrics().servers.empty()) return Fail(status);
  const absl::Time deadline = absl::Now() + options.timeout;
  while (!IsSettled(*options.channel) && absl::Now() < deadline) {
    if (ReaderIsGoneWithin(absl::Milliseconds(10))) break;
  }
  PrintServers(*options.channel);
  while (watch && !ReaderIsGoneWithin(absl::Seconds(1))) {
    std::cout << absl::FormatTime("\n%H:%M:%S\n", absl::Now(),
                                  absl::LocalTimeZone());
    PrintServers(*options.channel);
  }
  return options.channel->state() == ChannelState::kReady ? kDone : kNotServing;
}

}  // namespace verbena::tool
