#include "tests/testing/transport_client.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena::testing_support {
namespace {

using transport::EndpointOptions;
using transport::LoneConnection;
using transport::ServerEndpoint;

std::string Text(absl::Span<const uint8_t> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

TestCall::TestCall(std::string message, Options options)
    : metadata_(std::move(options.metadata)),
      message_(std::move(message)),
      attachment_(std::move(options.attachment)),
      keep_attachment_(options.keep_attachment) {
  request_.method_id = static_cast<uint64_t>(options.method);
  request_.deadline = options.deadline;
  if (metadata_.size() > transport::kFrameMetadataBytes) {
    request_.long_metadata = absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(metadata_.data()), metadata_.size());
  } else {
    request_.metadata_bytes = static_cast<uint32_t>(metadata_.size());
  }
  request_.message_bytes = message_.size();
  request_.reply_hint_bytes = options.reply_hint_bytes;
  request_.attachment = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(attachment_.data()), attachment_.size());
}

void TestCall::WriteRequest(uint8_t* out) {
  CHECK(!written_) << "asked for its request twice";
  CHECK_EQ(request_.message_bytes, message_.size());
  written_ = true;
  std::memcpy(out, metadata_.data(), request_.metadata_bytes);
  std::memcpy(out + request_.metadata_bytes, message_.data(), message_.size());
}

void TestCall::OnResponse(const transport::CallResponse& response) {
  ++ends_;
  responded_ = true;
  unprocessed_ = response.unprocessed;
  status_ = absl::Status(response.code, Text(response.status_message));
  reply_metadata_ = Text(response.metadata);
  reply_ = Text(response.message);
  if (response.attachment != nullptr) {
    reply_attachment_ = Text(response.attachment->span());
    if (keep_attachment_) kept_attachment_ = std::move(*response.attachment);
  }
}

void TestCall::OnFailed(const absl::Status& status) {
  ++ends_;
  CHECK(!status.ok());
  status_ = status;
}

absl::StatusOr<LoneConnection> TestClient::Connect(
    const std::string& address, const EndpointOptions& options) {
  ASSIGN_OR_RETURN(const base::SocketAddress peer,
                   base::SocketAddress::ParseNumeric(address));
  return LoneConnection::Connect(TestProvider(), peer, options);
}

TestClient::TestClient(const std::string& address,
                       const EndpointOptions& options) {
  absl::StatusOr<LoneConnection> connection = Connect(address, options);
  CHECK(connection.ok()) << connection.status().ToString();
  connection_ = *std::move(connection);
  connection_->poller().Enter();
}

TestClient::TestClient(LoneConnection connection)
    : connection_(std::move(connection)) {
  connection_->poller().Enter();
}

TestClient::~TestClient() { connection_->poller().Leave(); }

bool TestClient::RunUntil(absl::FunctionRef<bool()> done) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (!done()) {
    if (connection_->poller().PollOnce() > 0) continue;
    if (base::Now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

bool TestClient::RunUntilDone(const TestCall& call) {
  return RunUntil([&call] { return call.done(); });
}

absl::Status TestClient::Run(TestCall& call) {
  Start(call);
  if (RunUntilDone(call)) return call.status();
  // The call must not be left in the connection.
  absl::Status late = absl::InternalError("the call does not end");
  connection_->Cancel(&call, late);
  return late;
}

absl::Status TestClient::Echo(size_t bytes, TestCall::Options options) {
  const std::string metadata = options.metadata;
  TestCall call(TestBytes(bytes, static_cast<uint32_t>(bytes) + 1),
                std::move(options));
  RETURN_IF_ERROR(Run(call));
  if (call.ends() != 1) return absl::InternalError("the call ended twice");
  if (call.reply_metadata() != metadata) {
    return absl::DataLossError("the metadata came back changed");
  }
  if (call.reply() == call.sent()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the echo of ", bytes,
                                          " bytes came back changed, ",
                                          call.reply().size(), " bytes long"));
}

TestServer::TestServer(
    const EndpointOptions& options, int pollers,
    std::shared_ptr<const transport::ServerCredentials> credentials) {
  ServerEndpoint::Options server_options;
  server_options.endpoint = options;
  server_options.addresses = {TestListenAddress()};
  server_options.credentials = {std::move(credentials)};
  server_options.pollers = pollers;
  TestProvider();  // Prints the device.
  absl::StatusOr<std::unique_ptr<ServerEndpoint>> endpoint =
      ServerEndpoint::Start(server_options, handler_);
  CHECK(endpoint.ok()) << endpoint.status().ToString();
  endpoint_ = *std::move(endpoint);
  address_ = endpoint_->listening().front().address;
}

TestServer::~TestServer() {
  handler_.Release();
  endpoint_.reset();
}

bool TestServer::AwaitConnections(uint32_t count) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  while (endpoint_->connection_count() != count) {
    if (base::Now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace verbena::testing_support
