#include "transport/soft/cm/connection_space.h"

#include "transport/soft/connected/connected_queue_pair.h"

namespace verbena::soft {

std::shared_ptr<CmEndpoint> ConnectionSpace::MakeEndpoint() {
  auto endpoint = std::make_shared<CmEndpoint>();
  endpoint->port_space = this;
  endpoint->ps = RDMA_PS_TCP;
  endpoint->qp_type = IBV_QPT_RC;
  return endpoint;
}

void ConnectionSpace::LetGoOfQp(CmEndpoint& endpoint) {
  ConnectedQueuePair::From(endpoint.qp)->DetachLink();
}

void ConnectionSpace::End(CmEndpoint& endpoint, ClosingSockets& closing) {
  listener_.End(endpoint, closing);
  handshake_.End(endpoint, closing);
}

}  // namespace verbena::soft
