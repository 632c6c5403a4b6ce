#include "transport/faulty/faulty_provider.h"

#include "transport/faulty/faulty_cm.h"
#include "transport/faulty/faulty_state.h"
#include "transport/faulty/faulty_verbs.h"

namespace verbena::transport {

FaultyProvider::FaultyProvider(const Provider& base, FaultPlan& plan)
    : provider_{base.name, FaultyVerbs(base.verbs), FaultyCm(base.cm),
                base.peer_user},
      base_(base) {
  // Entries of the tables are plain functions, which find base and plan in
  // FaultyState.
  FaultyState::Get().Set(&base, &plan);
}

// Aborts if objects are left, because their data path leads through this
// provider.
FaultyProvider::~FaultyProvider() { FaultyState::Get().Set(nullptr, nullptr); }

size_t FaultyProvider::objects() const { return FaultyState::Get().owned(); }

void FaultyProvider::SetPlan(FaultPlan& plan) {
  FaultyState::Get().Set(&base_, &plan);
}

}  // namespace verbena::transport
