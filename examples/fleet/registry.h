// How clients find the servers: by a file that lists them, or by etcd. A
// program is linked with one of the two.

#ifndef VERBENA_EXAMPLES_FLEET_REGISTRY_H_
#define VERBENA_EXAMPLES_FLEET_REGISTRY_H_

#include <memory>
#include <string>

#include "rpc/channel_options.h"

namespace fleet {

// Announces a server until the result is destroyed.
std::shared_ptr<void> Announce(const std::string& address);

// Lets a channel find the servers.
void AddResolvers(verbena::ChannelOptions& options);

}  // namespace fleet

#endif  // VERBENA_EXAMPLES_FLEET_REGISTRY_H_
