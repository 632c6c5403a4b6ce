// Serves chain.Link until it gets SIGINT or SIGTERM: passes orders on to the
// next server or, without one, does the work.

#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/chain/chain.verbena.h"
#include "examples/common/serve.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50057",
          "address and port to serve on; port 0 takes any free one");
ABSL_FLAG(std::string, name, "back", "the name of this server in reports");
ABSL_FLAG(
    std::string, next, "",
    "address and port of the next server; empty: this server does the work");
ABSL_FLAG(bool, let_finish, false,
          "let the next server finish the work even if nobody waits for it");

namespace chain {
namespace {

// The service of the last server in the chain, which does the work itself.
class Worker final : public Link::Service {
  absl::Status Work(verbena::ServerContext* context, const Order* order,
                    Report* report) override {
    const std::string& name = absl::GetFlag(FLAGS_name);
    const bool hurried = context->deadline() != absl::InfiniteFuture();
    std::cout << name << ": begins, "
              << (hurried ? "with a deadline" : "and may take for ever")
              << std::endl;
    // The work of this example is to wait. A real handler would call
    // IsCancelled() now and then, or pass the stop token on to other code.
    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    std::condition_variable_any never;
    const std::stop_token given_up = context->stop_token();
    never.wait_for(
        lock, given_up,
        absl::ToChronoMilliseconds(absl::Milliseconds(order->work_ms())),
        [] { return false; });
    if (given_up.stop_requested()) {
      std::cout << name << ": stops, nobody waits for it" << std::endl;
      return absl::CancelledError("nobody waits for it");
    }
    std::cout << name << ": is done" << std::endl;
    report->add_done_by(name);
    return absl::OkStatus();
  }
};

// The service of all other servers, which forward the order.
class Forwarder final : public Link::Service {
 public:
  explicit Forwarder(const std::string& next)
      : stub_(Link::NewStub(verbena::CreateChannel(next))) {}

 private:
  absl::Status Work(verbena::ServerContext* context, const Order* order,
                    Report* report) override {
    verbena::PropagationOptions options;
    if (absl::GetFlag(FLAGS_let_finish)) {
      options.disable_deadline_propagation();
      options.disable_cancellation_propagation();
    }
    // By default, the call to the next server has the deadline of the call that
    // is answered here, and is cancelled with it.
    const std::unique_ptr<verbena::ClientContext> onward =
        verbena::ClientContext::FromServerContext(*context, options);
    Report of_next;
    absl::Status status = stub_->Work(onward.get(), *order, &of_next);
    report->add_done_by(absl::GetFlag(FLAGS_name));
    report->MergeFrom(of_next);
    return status;
  }

  const std::unique_ptr<Link::Stub> stub_;
};

}  // namespace
}  // namespace chain

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves chain.Link.");
  absl::ParseCommandLine(argc, argv);

  const std::string next = absl::GetFlag(FLAGS_next);
  std::unique_ptr<chain::Link::Service> service;
  if (next.empty()) {
    service = std::make_unique<chain::Worker>();
  } else {
    service = std::make_unique<chain::Forwarder>(next);
  }
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(service.get());
  return examples::Serve(builder);
}
