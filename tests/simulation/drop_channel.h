// Drops a channel in a simulation.

#ifndef VERBENA_TESTS_SIMULATION_DROP_CHANNEL_H_
#define VERBENA_TESTS_SIMULATION_DROP_CHANNEL_H_

#include <functional>
#include <memory>

#include "rpc/rpc.h"

namespace verbena::simulation {

// Drops the last reference in a callback, where nobody waits for that. Calls
// `dropped` when the channel is gone.
void DropInCallback(std::shared_ptr<Channel> channel,
                    std::function<void()> dropped);

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_DROP_CHANNEL_H_
