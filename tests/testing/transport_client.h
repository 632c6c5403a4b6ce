// A client and a server of the transport, for tests that drive them by hand.

#ifndef VERBENA_TESTS_TESTING_TRANSPORT_CLIENT_H_
#define VERBENA_TESTS_TESTING_TRANSPORT_CLIENT_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/echo_handler.h"
#include "tests/testing/test_device.h"
#include "transport/base/buffer.h"
#include "transport/base/credentials.h"
#include "transport/base/endpoint_options.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/client/lone_connection.h"
#include "transport/server_endpoint.h"

namespace verbena::testing_support {

// A call and its result.
class TestCall final : public transport::ClientCall {
 public:
  struct Options {
    TestMethod method = TestMethod::kEcho;
    std::string metadata;
    uint64_t reply_hint_bytes = 0;
    std::string attachment;
    bool keep_attachment = false;  // Keeps the reply's Buffer.
    absl::Time deadline = absl::InfiniteFuture();
  };

  TestCall(std::string message, Options options);
  explicit TestCall(std::string message)
      : TestCall(std::move(message), Options()) {}

  void WriteRequest(uint8_t* out) override;
  void OnResponse(const transport::CallResponse& response) override;
  void OnUnsent(const absl::Status& why) override {
    unsent_ = true;
    OnFailed(why);
  }
  void OnFailed(const absl::Status& status) override;

  // Sends a Buffer as the attachment.
  void set_attachment(transport::Buffer attachment) {
    attachment_buffer_ = std::move(attachment);
    request_.attachment = attachment_buffer_.span();
    request_.attachment_buffer = &attachment_buffer_;
  }

  // Lies about the length; the bytes must never be asked for.
  void set_message_bytes(uint64_t bytes) { request_.message_bytes = bytes; }

  bool done() const { return ends_ > 0; }
  int ends() const { return ends_; }  // 1 when all is well.
  bool responded() const {
    return responded_;
  }  // Else the transport failed it.
  bool written() const { return written_; }
  // unsent(): the server knows nothing of the call. unprocessed(): the server
  // says that it has done nothing for it.
  bool unsent() const { return unsent_; }
  bool unprocessed() const { return unprocessed_; }
  const absl::Status& status() const { return status_; }
  const std::string& sent() const { return message_; }
  const std::string& reply() const { return reply_; }
  const std::string& reply_attachment() const { return reply_attachment_; }
  // If it was to be kept.
  transport::Buffer TakeReplyAttachment() {
    return std::move(kept_attachment_);
  }
  const std::string& reply_metadata() const { return reply_metadata_; }

 private:
  const std::string metadata_;
  const std::string message_;
  const std::string attachment_;
  transport::Buffer attachment_buffer_;
  const bool keep_attachment_;
  transport::Buffer kept_attachment_;
  std::string reply_attachment_;
  int ends_ = 0;
  bool responded_ = false;
  bool written_ = false;
  bool unsent_ = false;
  bool unprocessed_ = false;
  absl::Status status_;
  std::string reply_;
  std::string reply_metadata_;
};

// A connection whose role this thread holds. For one thread.
class TestClient {
 public:
  // Fails the test if it can't connect.
  explicit TestClient(
      const std::string& address,
      const transport::EndpointOptions& options = TestOptions());
  // Takes a connection over.
  explicit TestClient(transport::LoneConnection connection);
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient();

  static absl::StatusOr<transport::LoneConnection> Connect(
      const std::string& address, const transport::EndpointOptions& options);

  transport::ClientConnection& connection() { return *connection_; }
  void Start(TestCall& call) { connection_->Start(&call); }

  // Polls until `done` or for kTestTimeout; returns whether it was done.
  bool RunUntil(absl::FunctionRef<bool()> done);
  bool RunUntilDone(const TestCall& call);

  // Starts `call` and polls until it has ended. Returns its status.
  absl::Status Run(TestCall& call);
  // Makes an echo of `bytes` bytes. OK if they come back as they were sent.
  ::absl::Status Echo(size_t bytes, TestCall::Options options = {});

 private:
  transport::LoneConnection connection_;
};

// A server with an EchoHandler. Fails the test if it can't start.
class TestServer {
 public:
  // Null `credentials` are none.
  explicit TestServer(
      const transport::EndpointOptions& options = TestOptions(),
      int pollers = 1,
      std::shared_ptr<const transport::ServerCredentials> credentials = {});
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer();

  const std::string& address() const { return address_; }
  EchoHandler& handler() { return handler_; }
  transport::ServerEndpoint& endpoint() { return *endpoint_; }
  // Polls until there are that many connections; false after kTestTimeout.
  bool AwaitConnections(uint32_t count);

 private:
  EchoHandler handler_;
  std::unique_ptr<transport::ServerEndpoint> endpoint_;
  std::string address_;
};

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_TRANSPORT_CLIENT_H_
