// The code in docs/develop-without-hardware.md, around which stands what makes
// it compile. A test of the documents compares the two; nothing runs it.

#include <chrono>

#include "transport/faulty/fault_plan.h"
#include "transport/faulty/faulty_provider.h"
#include "transport/soft/simulation.h"
#include "transport/soft/soft_faults.h"
#include "transport/soft/soft_provider.h"

namespace verbena {
namespace {

[[maybe_unused]] void Plan() {
  transport::FaultPlan plan;
  plan.FailCall("reg_mr", 3, ENOMEM);
  plan.DropCompletion(7);
  plan.ReplaceEvent(RDMA_CM_EVENT_ESTABLISHED, 1, RDMA_CM_EVENT_REJECTED, 28);
  transport::FaultyProvider faulty(soft::SoftProvider(), plan);
}

[[maybe_unused]] void Simulate(ibv_qp* peer, ibv_cq* cq) {
  ibv_wc completion;
  soft::Simulation& simulation = soft::Simulation::Begin();
  soft::CutLink(peer);
  simulation.RunUntil([&] { return ibv_poll_cq(cq, 1, &completion) > 0; },
                      std::chrono::seconds(10));
}

}  // namespace
}  // namespace verbena
