// FleetServer, one of many servers, and the calls that its handlers see.

#ifndef VERBENA_TESTS_SIMULATION_FLEET_SERVER_H_
#define VERBENA_TESTS_SIMULATION_FLEET_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/server/server_impl.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tests/simulation/fleet_scenario.h"
#include "tests/simulation/world.h"
#include "transport/faulty/faulty_provider.h"

namespace verbena::simulation {

// A handler that had a call.
struct HandlerRun {
  size_t server = 0;
  std::string previous;  // Attempts before this one, as the client says.
  absl::Time begin;
  absl::Time end = absl::InfiniteFuture();
  absl::Time cancelled = absl::InfiniteFuture();  // When it heard of that.
  absl::StatusCode code = absl::StatusCode::kOk;  // Once it has ended.
  bool forbids_more = false;  // Its answer forbids further attempts.
};

// A call, from its start to the end of the run.
struct FleetCall {
  FleetCall(const FleetCallPlan* its_plan, size_t its_index)
      : plan(its_plan), index(its_index) {}

  const FleetCallPlan* plan;
  size_t index;
  ClientContext context;
  end_to_end::EchoRequest request;
  end_to_end::EchoReply reply;
  absl::Time start;
  absl::Time end = absl::InfiniteFuture();
  int ends = 0;
  absl::Status status;
  std::vector<HandlerRun> runs;
};

// The metadata key that tells a handler the index of its call.
inline constexpr char kCallKey[] = "call";

// A place at which there is a server now and then. Its handlers do what the
// plans of the calls say, unless the server is sick or hangs.
class FleetServer final : private end_to_end::Inline::CallbackService {
 public:
  enum class Mood { kWell, kSick, kHangs };
  // Access to the calls, for its handlers.
  struct Calls {
    std::function<FleetCall*(size_t index)> find;
    // A run has begun: the last one of `call`.
    std::function<void(const FleetCall& call)> on_run;
  };

  // All must outlive it.
  FleetServer(World* world, const transport::FaultyProvider* faulty,
              const Calls* calls, size_t index)
      : world_(*world), faulty_(*faulty), calls_(*calls), index_(index) {}
  FleetServer(const FleetServer&) = delete;
  FleetServer& operator=(const FleetServer&) = delete;

  // Starts a server, unless one is there.
  void Start();
  // Shuts it down: its open calls have so long. Steps the world until that is
  // done.
  void Stop(absl::Duration grace);
  // Its process stands still, until Resume().
  void Stall();
  void Resume();
  void SetMood(Mood mood);

  bool up() const { return server_ != nullptr && !stalled_; }
  // Whether it stood still between the two times.
  bool StalledBetween(absl::Time from, absl::Time to) const;
  // Null if there is none.
  internal::ServerImpl* server() const { return server_.get(); }

 private:
  class Handler;

  ServerUnaryReactor* Echo(CallbackServerContext* context,
                           const end_to_end::EchoRequest* request,
                           end_to_end::EchoReply* reply) override;
  bool is_sick() const { return mood_ == Mood::kSick; }
  // Ends the handler with that number, if it has not ended.
  void EndHandler(uint64_t number);

  World& world_;
  const transport::FaultyProvider& faulty_;
  const Calls& calls_;
  const size_t index_;
  std::unique_ptr<internal::ServerImpl> server_;
  Mood mood_ = Mood::kWell;
  bool stalled_ = false;
  std::vector<std::pair<absl::Time, absl::Time>> stalls_;
  // Handlers that have a call, by their numbers.
  std::map<uint64_t, Handler*> handlers_;
  uint64_t next_number_ = 0;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_FLEET_SERVER_H_
