// The connection manager of the software device: what librdmacm and the kernel
// do for hardware.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_

#include <rdma/rdma_cma.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/device/soft_device.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// All the endpoints of this process. One mutex protects them: connecting is
// rare, and one lock cannot be taken in the wrong order.
//
// Thread-safe. The public methods have the behaviour of the librdmacm functions
// of their names and return 0 or an errno. What peers send is handled on the
// engine's thread, and believed nowhere.
class ConnectionManager {
 public:
  // The one of this process, for SoftDevice::Get(); never destroyed, like it.
  static ConnectionManager& Get();

  explicit ConnectionManager(SoftDevice& device);
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // Blocks unless the channel's descriptor is non-blocking; for ever, as with
  // the kernel, when the channel is destroyed meanwhile. So does a thread that
  // comes a moment too late: there are programs that destroy the channel while
  // a thread of theirs goes from one event to the next, and then end.
  int GetEvent(CmChannel& channel, rdma_cm_event*& event);
  void DestroyChannel(std::unique_ptr<CmChannel> channel);
  void AckEvent(CmEventRecord* event);

  // `port_space` is RDMA_PS_TCP or RDMA_PS_UDP.
  CmEndpoint* CreateId(CmChannel& channel, void* context,
                       rdma_port_space port_space);
  // Blocks until every event of `endpoint` that was read is acknowledged; so
  // does MigrateId.
  void DestroyId(CmEndpoint& endpoint);
  void MigrateId(CmEndpoint& endpoint, CmChannel& channel);
  int SetOption(CmEndpoint& endpoint, int level, int option, const void* value,
                size_t length);

  int BindAddr(CmEndpoint& endpoint, base::SocketAddress address);
  int ResolveAddr(CmEndpoint& endpoint, base::SocketAddress source,
                  base::SocketAddress destination);
  int ResolveRoute(CmEndpoint& endpoint);
  int CreateQp(CmEndpoint& endpoint, ibv_pd* pd, ibv_qp_init_attr* attributes);
  void DestroyQp(CmEndpoint& endpoint);

  int Listen(CmEndpoint& endpoint, int backlog);
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters);
  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters);
  int Reject(CmEndpoint& endpoint, const void* private_data, uint8_t length);
  int Disconnect(CmEndpoint& endpoint);

  // With `send_only` the queue pair is not attached.
  int JoinMulticast(CmEndpoint& endpoint, const base::SocketAddress& group,
                    bool send_only, void* context);
  int LeaveMulticast(CmEndpoint& endpoint, const base::SocketAddress& group);

 private:
  // Descriptors on their way out. Stops watching and closes them when
  // destroyed, which must be after the mutex is released: the engine's thread
  // may be waiting for it in a callback of one of them.
  class Retired {
   public:
    explicit Retired(Engine& engine) : engine_(engine) {}
    Retired(const Retired&) = delete;
    Retired& operator=(const Retired&) = delete;
    ~Retired();
    void Add(base::UniqueFd fd);
    // `fd`, which is to be added, leads to a relay; see Relay::Finish. Not on
    // the engine's thread.
    void Finish(int fd) { relayed_.push_back(fd); }

   private:
    Engine& engine_;
    std::vector<base::UniqueFd> fds_;
    std::vector<int> relayed_;
  };

  // Everything below REQUIRES mutex_ to be held, except the On... callbacks,
  // which take it.

  // Events and ends (connection_manager.cc).
  void Post(CmEndpoint& endpoint, rdma_cm_event_type type, int status);
  // With what `message` says of the connection, and `data_bytes` of its data.
  void Post(CmEndpoint& endpoint, rdma_cm_event_type type, int status,
            const CmMessage& message, uint8_t data_bytes,
            std::shared_ptr<CmEndpoint> child = nullptr);
  void Destroy(CmEndpoint& endpoint, Retired& retired);
  int Bind(CmEndpoint& endpoint, base::SocketAddress address,
           BindPurpose purpose);
  ibv_context* Context();

  // Listeners (connection_manager_listen.cc).
  void WatchListener(CmEndpoint& listener);
  void OnIncoming(CmEndpoint& listener);
  void OnHalfOpenReadable(CmEndpoint& listener, uint64_t key);
  void OnHalfOpenTimeout(CmEndpoint& listener, uint64_t key);
  void AddHalfOpen(CmEndpoint& listener, CmEndpoint::HalfOpen half_open,
                   Retired& retired);
  // A connection that came to the host's TCP port is for `listener`.
  void AddRemote(CmEndpoint& listener, base::UniqueFd tcp, Retired& retired);
  // False when the request is not one, and its socket is to be closed.
  bool TakeRequest(CmEndpoint& listener, CmReceived received,
                   CmEndpoint::HalfOpen& half_open);

  // Before its queue pair goes. REQUIRES: it has one, and mutex_ is held.
  void LetGoOfQp(CmEndpoint& endpoint);

  // Connections (connection_manager_connect.cc).
  // Of the local address; 0 when it has gone.
  int GidIndex(const CmEndpoint& endpoint) const;
  void TryConnect(CmEndpoint& endpoint, Retired& retired);
  int ConnectToHost(CmEndpoint& endpoint);
  void WatchConnection(CmEndpoint& endpoint);
  void StartTimer(CmEndpoint& endpoint, std::chrono::nanoseconds delay);
  void OnTimer(CmEndpoint& endpoint);
  void OnReadable(CmEndpoint& endpoint);
  // False when `message` may not come in this state.
  bool HandleMessage(CmEndpoint& endpoint, const CmMessage& message,
                     Retired& retired);
  void HandleReply(CmEndpoint& endpoint, const CmMessage& reply,
                   Retired& retired);
  void HandleEnd(CmEndpoint& endpoint, Retired& retired);
  // Closes a connection that has not come up, and tells the user why.
  void Fail(CmEndpoint& endpoint, rdma_cm_event_type type, int status,
            Retired& retired);

  // Datagrams (connection_manager_datagram.cc).
  int MoveDatagramToReady(ibv_qp* qp);
  int ResolveDatagramAddr(CmEndpoint& endpoint, base::SocketAddress source,
                          base::SocketAddress destination);
  void WatchDatagrams(CmEndpoint& endpoint);
  int SendDatagram(const CmEndpoint& endpoint, const CmDatagram& datagram);
  int ConnectDatagram(CmEndpoint& endpoint, const rdma_conn_param* parameters);
  void Ask(CmEndpoint& endpoint);
  int ListenForDatagrams(CmEndpoint& endpoint, int backlog);
  int Answer(CmEndpoint& endpoint, uint8_t status,
             const rdma_conn_param* parameters);
  void OnDatagrams(CmEndpoint& endpoint);
  void OnQuestion(CmEndpoint& listener, const CmDatagram& question);
  void OnAnswer(CmEndpoint& endpoint, const CmDatagram& answer);
  void PostWithData(CmEndpoint& endpoint, std::unique_ptr<CmEventRecord> event,
                    const CmDatagram& datagram, uint8_t data_bytes);
  ibv_ah_attr PathTo(const CmEndpoint& endpoint, const ibv_gid& gid,
                     uint8_t hop_limit) const;
  // Leaves the groups, and what else holds on to the device.
  void EndDatagrams(CmEndpoint& endpoint);

  SoftDevice& device_;
  Engine& engine_;  // Of the device.
  const transport::VerbsOps verbs_;

  std::mutex mutex_;
  std::condition_variable acked_;  // Some endpoint's events_unacked is 0.
  // State below is protected by mutex_.
  std::deque<std::unique_ptr<CmChannel>> destroyed_channels_;  // The last few.
  ibv_context* context_ =
      nullptr;  // What rdma_cm_id::verbs is; made when used.
  uint64_t next_half_open_ = 1;
  uint64_t next_question_ = std::random_device()();  // Of the port space UDP.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
