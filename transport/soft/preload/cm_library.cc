#include "transport/soft/preload/cm_library.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace verbena::soft {

CmLibrary::CmLibrary(const transport::Provider& provider)
    : verbs_(provider.verbs), cm_(provider.cm) {}

// Identifiers that come with a request have no record before somebody asks for
// it.
CmLibrary::Record& CmLibrary::RecordOf(rdma_cm_id* id) {
  const base::MutexLock lock(mutex_);
  std::unique_ptr<Record>& record = records_[id];
  if (record == nullptr) record = std::make_unique<Record>();
  return *record;
}

bool CmLibrary::IsSynchronous(rdma_cm_id* id) {
  return RecordOf(id).synchronous;
}

// Identifiers.

int CmLibrary::CreateId(rdma_event_channel* channel, rdma_cm_id** id,
                        void* context, rdma_port_space port_space) {
  rdma_event_channel* own = nullptr;
  if (channel == nullptr) {
    own = cm_.create_event_channel();
    if (own == nullptr) return -1;
  }
  if (cm_.create_id(own == nullptr ? channel : own, id, context, port_space) !=
      0) {
    const int error = errno;
    if (own != nullptr) cm_.destroy_event_channel(own);
    return Fail(error);
  }
  RecordOf(*id).synchronous = own != nullptr;
  return 0;
}

// Acknowledges the event that the identifier shows, because destroy_id waits
// for that.
int CmLibrary::DestroyId(rdma_cm_id* id) {
  AcknowledgeEvent(id);
  rdma_event_channel* own = IsSynchronous(id) ? id->channel : nullptr;
  {
    // The record goes first: the address may be that of another identifier as
    // soon as this one is destroyed.
    const base::MutexLock lock(mutex_);
    records_.erase(id);
  }
  const int result = cm_.destroy_id(id);
  if (own != nullptr) cm_.destroy_event_channel(own);
  return result;
}

// A synchronous identifier gives up its own channel, once no event of that is
// left.
int CmLibrary::MigrateId(rdma_cm_id* id, rdma_event_channel* channel) {
  if (channel == nullptr) return MakeSynchronous(id);
  rdma_event_channel* own = IsSynchronous(id) ? id->channel : nullptr;
  if (own != nullptr) AcknowledgeEvent(id);
  if (cm_.migrate_id(id, channel) != 0) return -1;
  RecordOf(id).synchronous = false;
  if (own != nullptr) cm_.destroy_event_channel(own);
  return 0;
}

int CmLibrary::MakeSynchronous(rdma_cm_id* id) {
  // librdmacm refuses this too.
  if (IsSynchronous(id)) return Fail(EINVAL);
  rdma_event_channel* own = cm_.create_event_channel();
  if (own == nullptr) return -1;
  if (cm_.migrate_id(id, own) != 0) {
    const int error = errno;
    cm_.destroy_event_channel(own);
    return Fail(error);
  }
  RecordOf(id).synchronous = true;
  return 0;
}

// Gives the identifier its protection domain before the user sees the event.
int CmLibrary::GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  if (cm_.get_cm_event(channel, event) != 0) return -1;
  FillPd((*event)->id);
  if ((*event)->event != RDMA_CM_EVENT_CONNECT_REQUEST) return 0;
  // The connections of a synchronous listener are synchronous as well.
  if (!IsSynchronous((*event)->listen_id)) return 0;
  if (MakeSynchronous((*event)->id) == 0) return 0;
  const int error = errno;
  rdma_cm_id* id = (*event)->id;
  cm_.ack_cm_event(*event);
  DestroyId(id);
  return Fail(error);
}

void CmLibrary::AcknowledgeEvent(rdma_cm_id* id) {
  if (rdma_cm_event* event = std::exchange(id->event, nullptr)) {
    cm_.ack_cm_event(event);
  }
}

// The event stays in rdma_cm_id::event, where the user may read it until the
// next call.
int CmLibrary::Complete(rdma_cm_id* id) {
  if (!IsSynchronous(id)) return 0;
  AcknowledgeEvent(id);
  if (GetCmEvent(id->channel, &id->event) != 0) return -1;
  if (id->event->status == 0) return 0;
  return Fail(id->event->event == RDMA_CM_EVENT_REJECTED
                  ? ECONNREFUSED
                  : std::abs(id->event->status));
}

int CmLibrary::BindAddr(rdma_cm_id* id, sockaddr* address) {
  if (cm_.bind_addr(id, address) != 0) return -1;
  FillPd(id);
  return 0;
}

int CmLibrary::ResolveAddr(rdma_cm_id* id, sockaddr* source,
                           sockaddr* destination, int timeout_ms) {
  if (cm_.resolve_addr(id, source, destination, timeout_ms) != 0) return -1;
  return Complete(id);
}

int CmLibrary::ResolveRoute(rdma_cm_id* id, int timeout_ms) {
  if (cm_.resolve_route(id, timeout_ms) != 0) return -1;
  return Complete(id);
}

int CmLibrary::Connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (cm_.connect(id, parameters) != 0) return -1;
  return Complete(id);
}

int CmLibrary::Accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (cm_.accept(id, parameters) != 0) return -1;
  // An identifier of the port space UDP has no further event to wait for.
  if (id->qp_type == IBV_QPT_UD) return 0;
  return Complete(id);
}

int CmLibrary::Disconnect(rdma_cm_id* id) {
  if (cm_.disconnect(id) != 0) return -1;
  return Complete(id);
}

// Endpoints.

int CmLibrary::CreateEp(rdma_cm_id** id, const rdma_addrinfo* address,
                        ibv_pd* pd, ibv_qp_init_attr* attributes) {
  rdma_cm_id* created = nullptr;
  if (CreateId(nullptr, &created, nullptr,
               static_cast<rdma_port_space>(address->ai_port_space)) != 0) {
    return -1;
  }
  if (StartEp(created, *address, pd, attributes) != 0) {
    const int error = errno;
    DestroyEp(created);
    return Fail(error);
  }
  *id = created;
  return 0;
}

// A passive endpoint is only bound; the arguments are kept for the queue pairs
// of its connections. An active one finds its way and gets its queue pair.
int CmLibrary::StartEp(rdma_cm_id* id, const rdma_addrinfo& address, ibv_pd* pd,
                       ibv_qp_init_attr* attributes) {
  constexpr int kResolveTimeoutMs = 2000;  // librdmacm's own.
  if (attributes != nullptr) {
    attributes->qp_type = static_cast<ibv_qp_type>(address.ai_qp_type);
  }
  if ((address.ai_flags & RAI_PASSIVE) != 0) {
    Record& record = RecordOf(id);
    record.pd = pd;
    if (attributes != nullptr) record.qp_attributes = *attributes;
    return BindAddr(id, address.ai_src_addr);
  }
  if (ResolveAddr(id, address.ai_src_addr, address.ai_dst_addr,
                  kResolveTimeoutMs) != 0 ||
      ResolveRoute(id, kResolveTimeoutMs) != 0) {
    return -1;
  }
  return attributes == nullptr ? 0 : CreateQp(id, pd, attributes);
}

void CmLibrary::DestroyEp(rdma_cm_id* id) {
  // The queue pair uses the shared receive queue, so it goes first.
  if (id->qp != nullptr) DestroyQp(id);
  if (id->srq != nullptr) DestroySrq(id);
  DestroyId(id);
}

// Waits for the next request, and makes the queue pair for it if the endpoint
// was made with attributes of one.
int CmLibrary::GetRequest(rdma_cm_id* listener, rdma_cm_id** id) {
  if (!IsSynchronous(listener)) return Fail(EINVAL);
  AcknowledgeEvent(listener);
  rdma_cm_event* event = nullptr;
  if (GetCmEvent(listener->channel, &event) != 0) return -1;
  int error = 0;
  if (event->status != 0) {
    error = std::abs(event->status);
  } else if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    error = EINVAL;
  } else if (const Record& record = RecordOf(listener);
             record.qp_attributes.has_value()) {
    ibv_qp_init_attr attributes = *record.qp_attributes;
    if (CreateQp(event->id, record.pd, &attributes) != 0) error = errno;
  }
  if (error != 0) {
    listener->event = event;  // The next call acknowledges it.
    return Fail(error);
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}

}  // namespace verbena::soft
