// Interceptors that write down what they are told, and may interfere.

#ifndef VERBENA_TESTS_INTEGRATION_INTERCEPTORS_FIXTURE_H_
#define VERBENA_TESTS_INTEGRATION_INTERCEPTORS_FIXTURE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "gtest/gtest.h"
#include "rpc/client_interceptor.h"
#include "rpc/rpc.h"
#include "rpc/server_interceptor.h"
#include "tests/integration/forms_fixture.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {

// Records the events that interceptors were told, in order: "client1 start",
// "server2 end OK".
class Journal {
 public:
  void Add(const std::string& line);
  // Returns the lines that begin with `who`.
  std::vector<std::string> Of(const std::string& who);
  // Returns the number of lines that begin with `beginning`.
  size_t Count(const std::string& beginning) { return Of(beginning).size(); }
  // Waits until Count(beginning) is at least `count`. Fails the test if it is
  // not within minutes.
  void Await(const std::string& beginning, size_t count);

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// Functions that an interceptor calls beside recording events. Any may be null.
template <typename Context>
struct Acts {
  std::function<absl::Status(Context*)> start = nullptr;
  std::function<void()> send = nullptr;
  std::function<void(Context*, google::protobuf::MessageLite*)> receive =
      nullptr;
  std::function<void(Context*, absl::Status*)> end = nullptr;
};
using ClientActs = Acts<ClientContext>;
using ServerActs = Acts<ServerContext>;

// The journal must outlive what the factories make. `who` is "client1".
std::shared_ptr<ClientInterceptorFactory> NewClientRecorder(
    Journal* journal, std::string who, ClientActs acts = {});
std::shared_ptr<ServerInterceptorFactory> NewServerRecorder(
    Journal* journal, std::string who, ServerActs acts = {});
// Factories that are not interested in any call.
std::shared_ptr<ClientInterceptorFactory> NewIdleClientFactory();
std::shared_ptr<ServerInterceptorFactory> NewIdleServerFactory();

// The kinds of call, as the tests count them.
inline constexpr int kKinds = 4;

// A server with services of one form, and a client of one form, both with the
// interceptors that were added before.
class InterceptorsTest : public FormsTest {
 protected:
  void AddClient(ClientActs acts = {}) {
    options_.interceptors.push_back(NewClientRecorder(
        &journal_, "client" + std::to_string(++clients_), std::move(acts)));
  }
  void AddServer(ServerActs acts = {}) {
    builder_.AddInterceptor(NewServerRecorder(
        &journal_, "server" + std::to_string(++servers_), std::move(acts)));
  }
  // Removes all interceptors and options. The journal goes on.
  void Clear();
  void Connect(Form client, Form server);
  // Makes a call of one of the four kinds: an Echo of "ask"; a List of
  // `messages`; a Record of as many; a Chat of as many.
  CallOutcome Call(int kind, ClientContext* context, int messages = 2);
  CallOutcome Call(int kind, int messages = 2) {
    ClientContext context;
    return Call(kind, &context, messages);
  }
  // Expects that `who`, for example "client1", was told of one start and one
  // end, and of the end as the last event.
  void ExpectOneEndEach(const std::string& who);

  Journal journal_;
  ChannelOptions options_;
  ServerBuilder builder_;
  std::unique_ptr<FormClient> client_;
  EchoReply reply_;           // Reply of the last Echo.
  size_t payload_bytes_ = 0;  // Payload of each message of a stream.

 private:
  int clients_ = 0;
  int servers_ = 0;
};

// InterceptorsTest with each form of client and server.
class EachFormInterceptorsTest
    : public InterceptorsTest,
      public ::testing::WithParamInterface<FormOfBoth> {
 protected:
  void Connect() {
    InterceptorsTest::Connect(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

}  // namespace verbena::end_to_end

#endif  // VERBENA_TESTS_INTEGRATION_INTERCEPTORS_FIXTURE_H_
