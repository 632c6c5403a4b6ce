#include "transport/soft/device/port_events.h"

namespace verbena::soft {

void PortEvents::Add(EventQueue* context_events) {
  const base::MutexLock lock(mutex_);
  contexts_.try_emplace(context_events);
}

void PortEvents::Remove(EventQueue* context_events) {
  const base::MutexLock lock(mutex_);
  contexts_.erase(context_events);
}

void PortEvents::Raise(ibv_event_type type, uint8_t port) {
  // Held until all contexts are told, so that none of them is closed meanwhile.
  const base::MutexLock lock(mutex_);
  for (auto& [events, source] : contexts_) {
    events->Raise({&source, reinterpret_cast<void*>(uintptr_t{port}), type});
  }
}

}  // namespace verbena::soft
