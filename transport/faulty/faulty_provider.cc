#include "transport/faulty/faulty_provider.h"

#include "transport/faulty/faulty_cm.h"
#include "transport/faulty/faulty_state.h"
#include "transport/faulty/faulty_verbs.h"

namespace verbena::transport {

FaultyProvider::FaultyProvider(const Provider& base, FaultPlan& plan)
    : provider_{base.name, FaultyVerbs(base.verbs), FaultyCm(base.cm),
                base.peer_user},
      base_(base) {
  FaultyState::Get().Set(&base, &plan);
}

FaultyProvider::~FaultyProvider() { FaultyState::Get().Set(nullptr, nullptr); }

size_t FaultyProvider::objects() const { return FaultyState::Get().owned(); }

void FaultyProvider::SetPlan(FaultPlan& plan) {
  FaultyState::Get().Set(&base_, &plan);
}

}  // namespace verbena::transport
