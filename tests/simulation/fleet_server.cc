#include "tests/simulation/fleet_server.h"

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/fleet_names.h"
#include "tests/simulation/options.h"

namespace verbena::simulation {
namespace {

transport::EndpointOptions EndpointOptionsOf() {
  auto options = CommonOptions<transport::EndpointOptions>();
  options.max_bulk_bytes = uint64_t{4} << 20;
  return options;
}

// The values of metadata that occur once.
std::string ValueOf(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second);
}

}  // namespace

// Has one call. Ends when its time has come, or when it hears of a
// cancellation, if the plan says so.
class FleetServer::Handler final : public ServerUnaryReactor {
 public:
  Handler(FleetServer* server, CallbackServerContext* context, FleetCall* call,
          uint64_t number)
      : server_(*server),
        context_(*context),
        call_(*call),
        run_(call->runs.size() - 1),
        number_(number) {}

  void End(absl::StatusCode code) {
    HandlerRun& run = call_.runs[run_];
    if (run.end != absl::InfiniteFuture()) return;
    run.end = server_.world_.Now();
    run.code = code;
    const int pushback_ms = call_.plan->pushback_ms;
    if (code == absl::StatusCode::kUnavailable && pushback_ms != 0) {
      run.forbids_more = pushback_ms < 0;
      context_.AddTrailingMetadata("grpc-retry-pushback-ms",
                                   absl::StrCat(pushback_ms));
    }
    Finish(absl::Status(code, code == absl::StatusCode::kOk ? "" : "planned"));
  }
  // Ends as the plan says.
  void End() {
    const bool fails =
        static_cast<int>(run_) < call_.plan->failures || server_.is_sick();
    End(fails ? absl::StatusCode::kUnavailable : call_.plan->code);
  }

  void OnCancel() override {
    call_.runs[run_].cancelled = server_.world_.Now();
    if (call_.plan->heeds_cancel) End(absl::StatusCode::kAborted);
  }
  void OnDone() override {
    server_.handlers_.erase(number_);
    delete this;
  }

 private:
  FleetServer& server_;
  CallbackServerContext& context_;
  FleetCall& call_;
  const size_t run_;  // In call_.runs.
  const uint64_t number_;
};

void FleetServer::Start() {
  if (server_ != nullptr) return;
  internal::ServerImpl::Options options;
  options.endpoint.endpoint = EndpointOptionsOf();
  options.endpoint.addresses = {ServerAddressText(index_)};
  options.endpoint.provider = &faulty_.provider();
  options.endpoint.wait = [this] { world_.Step(); };
  options.services = {this};
  absl::StatusOr<std::unique_ptr<internal::ServerImpl>> server =
      internal::ServerImpl::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  world_.Add(&server_->endpoint());
}

void FleetServer::Stop(absl::Duration grace) {
  Resume();
  // Taken out first: what Shutdown() waits for may start the next one.
  const std::unique_ptr<internal::ServerImpl> server = std::move(server_);
  if (server == nullptr) return;
  world_.LookEverywhere();
  server->Shutdown(world_.Now() + grace);
  world_.Remove(&server->endpoint());
}

void FleetServer::Stall() {
  if (server_ == nullptr || stalled_) return;
  stalled_ = true;
  stalls_.emplace_back(world_.Now(), absl::InfiniteFuture());
  world_.Remove(&server_->endpoint());
}

void FleetServer::Resume() {
  if (!std::exchange(stalled_, false)) return;
  stalls_.back().second = world_.Now();
  world_.Add(&server_->endpoint());
}

bool FleetServer::StalledBetween(absl::Time from, absl::Time to) const {
  for (const auto& [begin, end] : stalls_) {
    if (begin <= to && from <= end) return true;
  }
  return false;
}

void FleetServer::SetMood(Mood mood) {
  mood_ = mood;
  if (mood == Mood::kHangs) return;
  std::vector<uint64_t> numbers;
  for (const auto& [number, handler] : handlers_) numbers.push_back(number);
  for (const uint64_t number : numbers) EndHandler(number);
}

void FleetServer::EndHandler(uint64_t number) {
  const auto found = handlers_.find(number);
  if (found != handlers_.end()) found->second->End();
}

// A handler that has no work ends inside of this.
ServerUnaryReactor* FleetServer::Echo(CallbackServerContext* context,
                                      const end_to_end::EchoRequest* request,
                                      end_to_end::EchoReply* reply) {
  const Metadata& metadata = context->client_metadata();
  size_t index = 0;
  CHECK(absl::SimpleAtoi(ValueOf(metadata, kCallKey), &index));
  FleetCall* const call = calls_.find(index);
  HandlerRun& run = call->runs.emplace_back();
  run.server = index_;
  run.previous = ValueOf(metadata, "grpc-previous-rpc-attempts");
  run.begin = world_.Now();
  calls_.on_run(*call);
  reply->set_payload(request->payload());
  const uint64_t number = next_number_++;
  auto* const handler = new Handler(this, context, call, number);
  handlers_.emplace(number, handler);
  if (mood_ == Mood::kHangs) return handler;
  if (mood_ == Mood::kSick || call->plan->work == absl::ZeroDuration()) {
    handler->End();
  } else {
    world_.At(run.begin + call->plan->work,
              [this, number] { EndHandler(number); });
  }
  return handler;
}

}  // namespace verbena::simulation
