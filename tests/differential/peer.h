// A library whose client and server run schedules.

#ifndef VERBENA_TESTS_DIFFERENTIAL_PEER_H_
#define VERBENA_TESTS_DIFFERENTIAL_PEER_H_

#include <memory>
#include <string>

#include "tests/differential/schedule.h"

namespace verbena::differential {

// Each has a server, and makes a channel for each schedule. For one thread at a
// time.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual Outcome Run(const Schedule& schedule) = 0;
};

void SilenceGrpc();
std::unique_ptr<Peer> NewVerbenaPeer();
std::unique_ptr<Peer> NewGrpcPeer();

// Returns an empty text if gRPC takes the service config, else what it says.
std::string GrpcsOpinionOf(const std::string& config);

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_PEER_H_
