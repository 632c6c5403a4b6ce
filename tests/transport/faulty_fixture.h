// Clients and servers of the transport whose device fails on a plan.

#ifndef VERBENA_TESTS_TRANSPORT_FAULTY_FIXTURE_H_
#define VERBENA_TESTS_TRANSPORT_FAULTY_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/echo_handler.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "transport/base/clock.h"
#include "transport/base/credentials.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/client/lone_connection.h"
#include "transport/faulty/fault_plan.h"
#include "transport/faulty/faulty_provider.h"
#include "transport/polling/poller.h"
#include "transport/server_endpoint.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"

namespace verbena::transport {

// Far below the timeouts whose end would mean that somebody was never told.
inline constexpr absl::Duration kAtOnce = absl::Seconds(5);

// A status that says what went wrong, not that something did. It is never
// INTERNAL, which blames the peer, unless the device lies.
inline void ExpectClear(const absl::Status& status, bool device_lies = false) {
  if (status.ok()) return;
  EXPECT_FALSE(status.message().empty()) << status;
  EXPECT_NE(status.code(), absl::StatusCode::kUnknown) << status;
  if (device_lies) return;
  EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
}

// Gives up soon, because what is lost costs that time.
inline EndpointOptions ImpatientOptions(absl::Duration connect,
                                        absl::Duration keepalive) {
  EndpointOptions options = testing_support::TestOptions();
  options.connect_timeout = connect;
  options.keepalive_time = keepalive;
  options.keepalive_timeout = keepalive;
  return options;
}

// A server that is started, called and stopped while the plan of `faulty`
// holds.
class FaultyServer {
 public:
  FaultyServer(const FaultyProvider& faulty, const EndpointOptions& endpoint,
               std::shared_ptr<const ServerCredentials> credentials = {}) {
    ServerEndpoint::Options options;
    options.endpoint = endpoint;
    options.addresses = {testing_support::TestListenAddress()};
    options.credentials = {std::move(credentials)};
    options.provider = &faulty.provider();
    absl::StatusOr<std::unique_ptr<ServerEndpoint>> started =
        ServerEndpoint::Start(options, handler_);
    status_ = started.status();
    if (started.ok()) endpoint_ = *std::move(started);
  }
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;
  ~FaultyServer() {
    handler_.Release();
    endpoint_.reset();
  }

  const absl::Status& status() const { return status_; }
  std::string address() const { return endpoint_->listening().front().address; }
  testing_support::EchoHandler& handler() { return handler_; }
  uint32_t connections() const { return endpoint_->connection_count(); }

 private:
  testing_support::EchoHandler handler_;
  absl::Status status_;
  std::unique_ptr<ServerEndpoint> endpoint_;
};

// A device that fails when a test says so.
class FaultyFixture : public testing::Test {
 protected:
  // The data path of the context is changed before other threads run on it.
  FaultyFixture() : faulty_(testing_support::TestProvider(), no_faults_) {
    absl::StatusOr<EventChannel> channel =
        EventChannel::Create(faulty_.provider());
    absl::StatusOr<CmId> id = CmId::Create(faulty_.provider(), *channel);
    const absl::Status bound = id->BindAddr(*base::SocketAddress::ParseNumeric(
        testing_support::TestListenAddress()));
    EXPECT_TRUE(bound.ok()) << bound;
  }

  // Connects, makes a small and a large call that end by themselves after
  // `call_time`, and closes.
  static absl::Status Use(const Provider& provider, const std::string& address,
                          const EndpointOptions& options,
                          absl::Duration call_time) {
    absl::StatusOr<LoneConnection> connection = LoneConnection::Connect(
        provider, *base::SocketAddress::ParseNumeric(address), options);
    if (!connection.ok()) return connection.status();
    testing_support::TestClient client(*std::move(connection));
    for (const size_t bytes : {10, 300 * 1024}) {
      testing_support::TestCall::Options call;
      call.deadline = base::Now() + call_time;
      absl::Status echo = client.Echo(bytes, call);
      if (!echo.ok()) return echo;
      // Arms the queues, which on a busy machine no call may have had to do.
      client.connection().poller().Sleep(absl::InfinitePast());
    }
    return absl::OkStatus();
  }

  // Has `clients` clients Use() the server, one after the other, with a device
  // that does not fail. Returns how many fail.
  static int FailedClients(const std::string& address,
                           const EndpointOptions& options,
                           absl::Duration call_time, int clients = 3,
                           bool device_lies = false) {
    int failed = 0;
    for (int i = 0; i < clients; ++i) {
      const absl::Time start = base::Now();
      const absl::Status status =
          Use(testing_support::TestProvider(), address, options, call_time);
      EXPECT_LT(base::Now() - start, kAtOnce) << status;
      ExpectClear(status, device_lies);
      if (!status.ok()) ++failed;
    }
    return failed;
  }

  FaultPlan no_faults_;
  FaultyProvider faulty_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_TRANSPORT_FAULTY_FIXTURE_H_
