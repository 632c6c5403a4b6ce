#include "transport/verbs/cm_id.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/verbs/error.h"

namespace verbena::transport {
namespace {

// CM waits in whole milliseconds, and 0 would mean not at all.
int Milliseconds(absl::Duration timeout) {
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(timeout), 1, INT_MAX));
}

// The length is checked before the cast to the 8 bits of private_data_len.
absl::Status CheckPrivateData(absl::string_view verb, size_t size, size_t max) {
  if (size <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      verb, ": ", size, " bytes of private data, at most ", max, " fit"));
}

// Leaves the number of the queue pair zero: librdmacm takes it from the id,
// which has one.
rdma_conn_param ToConnParam(const ConnectionParameters& parameters) {
  rdma_conn_param result = {};
  result.private_data = parameters.private_data.data();
  result.private_data_len =
      static_cast<uint8_t>(parameters.private_data.size());
  result.responder_resources = parameters.responder_resources;
  result.initiator_depth = parameters.initiator_depth;
  result.retry_count = parameters.retry_count;
  result.rnr_retry_count = parameters.rnr_retry_count;
  return result;
}

}  // namespace

absl::StatusOr<CmId> CmId::Create(const Provider& provider,
                                  const EventChannel& channel, void* context) {
  rdma_cm_id* id = nullptr;
  // RDMA_PS_TCP is the port space of reliable connections.
  if (provider.cm.create_id(channel.get(), &id, context, RDMA_PS_TCP) != 0) {
    return ErrnoStatus("create_id", provider.name, errno);
  }
  return CmId(provider.cm, id);
}

// The connection manager has made the id; from here on this object destroys it.
CmId CmId::Adopt(const Provider& provider, rdma_cm_id* id) {
  return CmId(provider.cm, id);
}

CmId::CmId(CmId&& other) noexcept
    : ops_(other.ops_), id_(std::exchange(other.id_, nullptr)) {}

// The old id goes before the new one is taken over.
CmId& CmId::operator=(CmId&& other) noexcept {
  if (this == &other) return *this;
  Destroy();
  ops_ = other.ops_;
  id_ = std::exchange(other.id_, nullptr);
  return *this;
}

CmId::~CmId() { Destroy(); }

void CmId::Destroy() {
  if (id_ == nullptr) return;
  DestroyQp();  // destroy_id requires it.
  // An id must go before its channel, and a refusal would leave it there, so
  // only a device that is gone is excused.
  const int result = ops_->destroy_id(id_);
  CHECK(result == 0 || IsGone(errno)) << "destroy_id: " << std::strerror(errno);
  id_ = nullptr;
}

absl::Status CmId::BindAddr(const base::SocketAddress& address) {
  // The verbs take addresses without const, although they only read them.
  base::SocketAddress copy = address;
  if (ops_->bind_addr(id_, copy.mutable_get()) == 0) return absl::OkStatus();
  return ErrnoStatus("bind_addr", address.ToString(), errno);
}

absl::Status CmId::Listen(int backlog) {
  return Check("listen", ops_->listen(id_, backlog));
}

// An empty source becomes null, by which the routing tables choose.
absl::Status CmId::ResolveAddr(const base::SocketAddress& source,
                               const base::SocketAddress& destination,
                               absl::Duration timeout) {
  base::SocketAddress from = source;
  base::SocketAddress to = destination;
  if (ops_->resolve_addr(id_, from.empty() ? nullptr : from.mutable_get(),
                         to.mutable_get(), Milliseconds(timeout)) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus("resolve_addr", destination.ToString(), errno);
}

absl::Status CmId::ResolveRoute(absl::Duration timeout) {
  return Check("resolve_route",
               ops_->resolve_route(id_, Milliseconds(timeout)));
}

absl::Status CmId::CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return Check("create_qp", ops_->create_qp(id_, pd, attributes));
}

void CmId::DestroyQp() {
  if (id_->qp != nullptr) ops_->destroy_qp(id_);
}

absl::Status CmId::Connect(const ConnectionParameters& parameters) {
  RETURN_IF_ERROR(CheckPrivateData("connect", parameters.private_data.size(),
                                   kConnectPrivateDataMax));
  rdma_conn_param raw = ToConnParam(parameters);
  return Check("connect", ops_->connect(id_, &raw));
}

absl::Status CmId::Accept(const ConnectionParameters& parameters) {
  RETURN_IF_ERROR(CheckPrivateData("accept", parameters.private_data.size(),
                                   kAcceptPrivateDataMax));
  rdma_conn_param raw = ToConnParam(parameters);
  return Check("accept", ops_->accept(id_, &raw));
}

absl::Status CmId::Reject(absl::Span<const uint8_t> private_data) {
  RETURN_IF_ERROR(
      CheckPrivateData("reject", private_data.size(), kRejectPrivateDataMax));
  return Check("reject",
               ops_->reject(id_, private_data.data(),
                            static_cast<uint8_t>(private_data.size())));
}

// The event DISCONNECTED ends what begins here.
absl::Status CmId::Disconnect() {
  return Check("disconnect", ops_->disconnect(id_));
}

absl::Status CmId::MigrateTo(const EventChannel& channel) {
  return Check("migrate_id", ops_->migrate_id(id_, channel.get()));
}

absl::Status CmId::SetOption(int level, int option, void* value,
                             size_t length) {
  return Check("set_option",
               ops_->set_option(id_, level, option, value, length));
}

absl::Status CmId::SetAckTimeout(uint8_t exponent) {
  return SetOption(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
                   sizeof(exponent));
}

absl::Status CmId::SetTrafficClass(uint8_t traffic_class) {
  return SetOption(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
                   sizeof(traffic_class));
}

// RDMA_OPTION_ID_AFONLY is what IPV6_V6ONLY is for sockets.
absl::Status CmId::SetIpv6Only(bool only) {
  int value = only ? 1 : 0;
  return SetOption(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value,
                   sizeof(value));
}

absl::Status CmId::SetReuseAddress(bool reuse) {
  int value = reuse ? 1 : 0;
  return SetOption(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value,
                   sizeof(value));
}

base::SocketAddress CmId::LocalAddress() const {
  return base::SocketAddress::FromSockaddr(&id_->route.addr.src_addr);
}

base::SocketAddress CmId::PeerAddress() const {
  return base::SocketAddress::FromSockaddr(&id_->route.addr.dst_addr);
}

uint16_t CmId::SrcPort() const { return ntohs(ops_->get_src_port(id_)); }

absl::Status CmId::Check(absl::string_view verb, int result) const {
  if (result == 0) return absl::OkStatus();
  // Saved at once, because making the texts below may change it.
  const int error = errno;
  const base::SocketAddress peer = PeerAddress();
  const base::SocketAddress local = LocalAddress();
  if (!peer.empty()) return ErrnoStatus(verb, peer.ToString(), error);
  if (!local.empty()) return ErrnoStatus(verb, local.ToString(), error);
  return ErrnoStatus(verb, "", error);
}

}  // namespace verbena::transport
