#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <iostream>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/verbs_layer.h"
#include "transport/base/status_macros.h"

namespace verbena::bench {
namespace {

using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;

constexpr int kBacklog = 16;

// Polls that find nothing between two looks at the connection manager, which
// cost a system call.
constexpr int kPollsPerLook = 4096;

// Answers one client. One thread.
class VerbsResponder {
 public:
  // Posts the receives, so call it before the client is accepted. `end` must
  // outlive the responder.
  VerbsResponder(VerbsEnd& end, const VerbsHello& client)
      : end_(end),
        client_(client),
        batch_(client.plan == VerbsPlan::kSendStream
                   ? std::max(1u, client.ReceiveDepth() / 4)
                   : client.ReceiveBatch()),
        unposted_(client.ReceiveDepth()) {
    const uint64_t slots = std::max<uint64_t>(client.Slots(VerbsSide::kServer),
                                              client.ReceiveDepth());
    for (auto i = static_cast<uint32_t>(slots); i-- > 0;) free_.push_back(i);
    PostReceives();
  }

  // Handles completions, and answers the client's requests. Returns whether
  // there were any completions. Errors are in end_.status().
  bool Poll() {
    const absl::Span<const ibv_wc> completions = end_.Poll();
    for (const ibv_wc& completion : completions) {
      if (completion.opcode == IBV_WC_RECV) {
        OnReceive(completion);
      } else if (completion.opcode == IBV_WC_RDMA_READ) {
        OnReadComplete();
      }
    }
    if (completions.empty()) return false;
    end_.FlushSends();
    while (!leaving_.empty() && leaving_.front().second <= end_.completed()) {
      free_.push_back(leaving_.front().first);
      leaving_.pop_front();
    }
    if (unposted_ < batch_) return true;
    const uint32_t posted = unposted_;
    PostReceives();
    if (client_.plan == VerbsPlan::kSendStream && end_.send_room() > 0) {
      // Tells the client of the receives only after they have been posted.
      end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = posted;
      end_.FlushSends();
    }
    return true;
  }

 private:
  void PostReceives() {
    for (; unposted_ > 0 && !free_.empty(); --unposted_) {
      end_.QueueReceive(free_.back(), free_.back());
      free_.pop_back();
    }
    end_.FlushReceives();
  }

  void OnReceive(const ibv_wc& completion) {
    ++unposted_;
    const auto slot = static_cast<uint32_t>(completion.wr_id);
    if (client_.plan == VerbsPlan::kSmallEcho) {
      return Echo(slot, completion.byte_len);
    }
    free_.push_back(slot);
    if (client_.plan == VerbsPlan::kBulkEcho) Fetch(completion.imm_data);
  }

  void Echo(uint32_t slot, uint32_t length) {
    // A correct client has fewer messages under way than there is room for.
    const bool room = end_.send_room() > 0;
    if (room) end_.Queue(IBV_WR_SEND, end_.Offset(slot), length);
    if (!room || length <= end_.inline_bytes()) {
      // An inline SEND is copied when it is posted, and FlushSends() posts it
      // before the slot is used for another receive.
      free_.push_back(slot);
    } else {
      leaving_.emplace_back(slot, end_.queued());
    }
  }

  void Fetch(uint32_t slot) {
    // Ignores requests that no correct client makes.
    if (slot >= client_.outstanding || reading_.size() >= client_.outstanding ||
        end_.send_room() < end_.requests_of_echo()) {
      return;
    }
    reading_.push_back(slot);
    Move(slot, IBV_WR_RDMA_READ, slot);
  }

  void OnReadComplete() {
    if (reading_.empty()) return;
    const uint32_t slot = reading_.front();
    reading_.pop_front();
    Move(slot, IBV_WR_RDMA_WRITE, client_.outstanding + slot);
    end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = slot;
  }

  // Moves a slot. The last READ is signalled, because OnReadComplete() goes on
  // from it. WRITEs need no signal.
  void Move(uint32_t slot, ibv_wr_opcode opcode, uint64_t remote_slot) {
    uint64_t done = 0;
    do {
      const uint64_t length =
          std::min(end_.request_bytes_max(), client_.size_bytes - done);
      ibv_send_wr& request = end_.Queue(opcode, end_.Offset(slot) + done,
                                        static_cast<uint32_t>(length));
      request.wr.rdma = {client_.address + end_.Offset(remote_slot) + done,
                         client_.rkey};
      done += length;
      if (done == client_.size_bytes && opcode == IBV_WR_RDMA_READ) {
        request.send_flags |= IBV_SEND_SIGNALED;
      }
    } while (done < client_.size_bytes);
  }

  VerbsEnd& end_;
  const VerbsHello client_;
  const uint32_t batch_;          // Receives that are posted again together.
  uint32_t unposted_;             // Receives that are to be posted.
  std::vector<uint32_t> free_;    // Slots for them.
  std::deque<uint32_t> reading_;  // Slots in the order of their READs.
  // Slots whose bytes may still be needed, with the last request of each.
  std::deque<std::pair<uint32_t, uint64_t>> leaving_;
};

}  // namespace

// Listens before the thread starts, so that a client can connect as soon as
// this returns.
absl::StatusOr<std::unique_ptr<VerbsServer>> VerbsServer::Start(
    const transport::Provider& provider, const base::SocketAddress& address) {
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  std::unique_ptr<VerbsServer> server =
      absl::WrapUnique(new VerbsServer(provider, std::move(channel)));
  if (!server->stop_.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  ASSIGN_OR_RETURN(CmId listener, CmId::Create(provider, server->channel_));
  RETURN_IF_ERROR(listener.BindAddr(address));
  RETURN_IF_ERROR(listener.Listen(kBacklog));
  server->port_ = listener.SrcPort();
  server->listener_.emplace(std::move(listener));
  server->thread_ = std::thread([server = server.get()] { server->Run(); });
  return server;
}

VerbsServer::~VerbsServer() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

// Serves one client after the other. Between clients it sleeps until an event
// comes or the destructor writes to stop_.
void VerbsServer::Run() {
  while (!stopping_) {
    const absl::StatusOr<std::optional<CmEvent>> event = channel_.Poll();
    absl::Status status = event.status();
    if (event.ok() && !event->has_value()) {
      pollfd polled[] = {{.fd = channel_.fd(), .events = POLLIN, .revents = 0},
                         {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      poll(polled, std::size(polled), -1);
    } else if (event.ok() && (*event)->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      status = Serve(**event);
    }
    if (!status.ok()) {
      std::cerr << "rpc_bench: verbs layer: " << status << std::endl;
    }
    if (!event.ok()) return;
  }
}

// Serves one connection to its end. Receives are posted before Accept(), so
// that the client's first SEND finds one.
absl::Status VerbsServer::Serve(const CmEvent& request) {
  // The connection gets its own event channel. Meanwhile, requests of others to
  // connect wait in the listener's channel.
  absl::StatusOr<EventChannel> channel = EventChannel::Create(provider_);
  CmId id = CmId::Adopt(provider_, request.id);
  absl::StatusOr<VerbsHello> hello = DecodeHello(request.private_data());
  if (!hello.ok()) {
    const std::string reason(hello.status().message());
    RETURN_IF_ERROR(id.Reject(BytesOf(reason)));
    return hello.status();
  }
  RETURN_IF_ERROR(channel.status());
  RETURN_IF_ERROR(id.MigrateTo(*channel));
  VerbsEnd end(provider_, std::move(id), *hello, VerbsSide::kServer);
  RETURN_IF_ERROR(end.status());
  VerbsResponder responder(end, *hello);
  RETURN_IF_ERROR(end.status());
  transport::ConnectionParameters parameters = end.Parameters();
  // No more READs than the client can answer at a time.
  parameters.initiator_depth =
      std::min(parameters.initiator_depth, request.initiator_depth);
  RETURN_IF_ERROR(end.id().Accept(parameters));

  // Returns whether the connection goes on: this server is not stopping, and no
  // event has ended the connection.
  const auto goes_on = [&channel, this] {
    while (!stopping_) {
      const absl::StatusOr<std::optional<CmEvent>> event = channel->Poll();
      if (!event.ok()) return false;
      if (!event->has_value()) return true;
      if ((*event)->type != RDMA_CM_EVENT_ESTABLISHED) return false;
    }
    return false;
  };
  for (int idle = 0; end.status().ok();) {
    if (responder.Poll()) {
      idle = 0;
    } else if (hello->events != 0) {
      end.Arm();
      if (responder.Poll()) continue;
      if (end.Wait({channel->fd(), stop_.get()}, absl::InfiniteFuture()) &&
          !goes_on()) {
        break;
      }
    } else if (++idle % kPollsPerLook == 0) {
      // Yields, because the device's thread may need this processor.
      std::this_thread::yield();
      if (!goes_on()) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::bench
