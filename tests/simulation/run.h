// Run, which executes a scenario and checks its results.

#ifndef VERBENA_TESTS_SIMULATION_RUN_H_
#define VERBENA_TESTS_SIMULATION_RUN_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/call/client_call_state.h"
#include "rpc/internal/server/server_impl.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/world.h"
#include "transport/faulty/faulty_provider.h"

namespace verbena::simulation {

// A server, channels and their calls. The current test fails unless:
// - each call ends once, not long after its deadline, with the server's reply
//   or an expected status;
// - in a harmless scenario each call that has enough time succeeds, or ends for
//   want of memory;
// - in the end everything has been given back.
class Run {
 public:
  // All must outlive it. The plan of `faulty` is that of the scenario.
  Run(World* world, const Scenario* scenario,
      const transport::FaultyProvider* faulty);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  // Runs from the first call to the end of the last connection.
  void Execute();

  // A line for each call that ended. Runs of one scenario have equal traces.
  const std::string& trace() const { return trace_; }

 private:
  struct Call {
    Call(const CallPlan* its_plan, size_t its_index)
        : plan(its_plan), index(its_index) {}
    // By base::Now().
    absl::Time due() {
      return internal::ClientCallState::Of(context).options().deadline();
    }

    const CallPlan* plan;
    size_t index;
    ClientContext context;
    end_to_end::EchoRequest request;
    end_to_end::EchoReply reply;
    int ends = 0;
  };

  void StartServer();
  void StopServer();
  void DropChannel(size_t index);
  void StartCall(const CallPlan& plan);
  void OnEnd(Call* call, const absl::Status& status);
  void ExpectReply(Call* call);
  void Begin(const Trouble& trouble);
  void End(const Trouble& trouble);
  void ExpectAllGivenBack();
  bool AllEnded() const;

  World& world_;
  const Scenario& scenario_;
  const transport::FaultyProvider& faulty_;
  const absl::Time begin_;
  end_to_end::InlineService service_;
  std::string address_;
  std::unique_ptr<internal::ServerImpl> server_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<Call>> calls_;
  int channels_left_ = 0;  // Channels that have not been destroyed yet.
  std::string trace_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_RUN_H_
