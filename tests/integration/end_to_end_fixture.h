// A server, a client, and words for what they do.

#ifndef VERBENA_TESTS_INTEGRATION_END_TO_END_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_END_TO_END_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

// Counts callbacks down; Wait() returns at zero, or fails the test after
// minutes.
class Countdown {
 public:
  explicit Countdown(int count) : count_(count) {}

  void Done();
  void Wait();

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_);
};

// The calls go to a server in this process, at VERBENA_TEST_ADDRESS
// (127.0.0.1), on the device in VERBENA_DEVICE; or, where the test does not ask
// for a server that is special, to the one at VERBENA_TEST_SERVER
// (address:port).
class EndToEndTest : public ::testing::Test {
 protected:
  // Starts a server of this test's own, with `change` applied to the defaults.
  void StartServer(const std::function<void(ServerBuilder&)>& change = {},
                   int port = 0);
  // The one at VERBENA_TEST_SERVER, or else StartServer().
  void UseServer();
  void StopServer() { server_.reset(); }

  const std::string& target() const { return target_; }
  int port() const { return port_; }
  Server& server() { return *server_; }
  EndToEndService& service() { return service_; }
  TestStreams& streams() { return streams_; }

  std::shared_ptr<Channel> NewChannel(
      const ChannelOptions& options = ChannelOptions()) const;

  // A Block call on a thread; its status when the thread is joined.
  struct Blocked {
    absl::Status status;
    ClientContext context;
    std::thread thread;
  };
  static std::unique_ptr<Blocked> Block(
      EndToEnd::Stub* stub, const std::string& key,
      absl::Duration timeout = absl::InfiniteDuration());

  // "10.0.0.7:0" for port 0: where servers of this test listen.
  static std::string Address(int port);

 private:
  EndToEndService service_;
  InlineService inline_service_;
  TestStreams streams_;
  std::unique_ptr<Server> server_;
  std::string target_;
  int port_ = 0;
};

// Makes an echo of `bytes` bytes. Returns what is wrong with it; empty if
// nothing is.
template <typename Stub>
std::string EchoProblem(Stub& stub, size_t bytes, size_t seed) {
  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  request.set_payload(Pattern(bytes, seed));
  const absl::Status status = stub.Echo(&context, request, &reply);
  if (!status.ok()) return status.ToString();
  return reply.payload() == request.payload() ? "" : "another payload";
}

// Makes asynchronous echoes, one at a time, and checks their replies.
class AsyncEcho {
 public:
  AsyncEcho(EndToEnd::Stub* stub, size_t bytes, size_t seed);

  // `done` is called after the reply was checked.
  void Start(std::function<void()> done);

  // Says what was wrong with the last echo; empty if nothing was.
  const std::string& problem() const { return problem_; }

 private:
  EndToEnd::Stub* const stub_;
  ClientContext context_;
  EchoRequest request_;
  EchoReply reply_;
  std::string problem_ = "never called back";
};

// An asynchronous echo whose parts the test sets and looks at.
struct EchoCall {
  void Start(EndToEnd::Stub* stub);

  ClientContext context;
  EchoRequest request;
  EchoReply reply;
  // For after done.Wait().
  absl::Status status;
  Countdown done{1};
};

// The program e2e_server, which lies beside the test.
std::string EndToEndServerPath();

// A Block call in flight, on a thread of its own.
absl::Status CallBlock(EndToEnd::Stub* stub, ClientContext* context,
                       const std::string& key);

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_END_TO_END_FIXTURE_H_
