// The script lists the servers in a file, and every channel knows the scheme
// "file".

#include "examples/fleet/registry.h"

namespace fleet {

std::shared_ptr<void> Announce(const std::string& /*address*/) {
  return nullptr;
}

void AddResolvers(verbena::ChannelOptions& /*options*/) {}

}  // namespace fleet
