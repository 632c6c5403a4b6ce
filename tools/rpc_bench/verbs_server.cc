#include "tools/rpc_bench/verbs_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/workload.h"
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

// The READs of a call, its WRITEs and the notice.
uint64_t RequestsOfCall(const VerbsHello& hello, uint64_t chunk_bytes) {
  const uint64_t chunks =
      std::max<uint64_t>(1, (hello.size_bytes + chunk_bytes - 1) / chunk_bytes);
  return 2 * chunks + 1;
}

uint32_t SlotsOf(const VerbsHello& hello) {
  switch (hello.plan) {
    case VerbsPlan::kSmallEcho:
      return hello.ReceiveDepth() + hello.SendDepth();
    case VerbsPlan::kSendStream:
      return hello.ReceiveDepth();
    case VerbsPlan::kBulkEcho:
    case VerbsPlan::kMemoryStream:
      break;
  }
  return hello.outstanding;
}

// Answers one client. One thread.
//
// A small echo goes back from the slot that it arrived in; there are more slots
// than receives, so that others are posted while the answers leave. A bulk echo
// has a slot for each call, a stream of SENDs one for each receive.
class VerbsResponder {
 public:
  // What the server needs for `hello`. `chunk_bytes`: the longest request that
  // the device takes; what is longer goes in several.
  static VerbsEnd::Options EndOptions(const VerbsHello& hello,
                                      uint64_t chunk_bytes);

  // Posts the receives; to be made before the client is accepted. `end` must
  // outlive the responder.
  VerbsResponder(VerbsEnd& end, const VerbsHello& hello, uint64_t chunk_bytes);

  // Takes what has come and answers it. Returns whether that was anything.
  // Errors are in the end's status.
  bool Poll();

 private:
  void OnReceive(const ibv_wc& completion);
  void Echo(const ibv_wc& completion);
  void Fetch(uint32_t slot);
  void OnReadComplete();
  // READs say that they are complete; nobody waits for WRITEs.
  void Move(uint32_t slot, ibv_wr_opcode opcode, uint64_t remote_slot);
  void PostReceives();

  VerbsEnd& end_;
  const VerbsHello hello_;
  const uint64_t chunk_bytes_;
  const uint64_t stride_;
  const uint32_t batch_;          // Receives that are posted again together.
  uint32_t unposted_;             // Receives that are to be posted.
  std::vector<uint32_t> free_;    // Slots for them.
  std::deque<uint32_t> reading_;  // Slots in the order of their READs.
  // Slots whose bytes may still be needed, with the last request of each.
  std::deque<std::pair<uint32_t, uint64_t>> leaving_;
};

VerbsEnd::Options VerbsResponder::EndOptions(const VerbsHello& hello,
                                             uint64_t chunk_bytes) {
  const bool bulk = hello.plan == VerbsPlan::kBulkEcho;
  // Requests that are complete may wait for a later one to say so.
  const uint64_t bulk_depth =
      uint64_t{2} * hello.outstanding * RequestsOfCall(hello, chunk_bytes) + 16;
  return {.send_depth =
              bulk ? static_cast<uint32_t>(bulk_depth) : hello.SendDepth(),
          .receive_depth = hello.ReceiveDepth(),
          .memory_bytes = hello.Stride() * SlotsOf(hello),
          .remote_access = hello.plan == VerbsPlan::kMemoryStream,
          .events = hello.events != 0};
}

VerbsResponder::VerbsResponder(VerbsEnd& end, const VerbsHello& hello,
                               uint64_t chunk_bytes)
    : end_(end),
      hello_(hello),
      chunk_bytes_(chunk_bytes),
      stride_(hello.Stride()),
      batch_(hello.plan == VerbsPlan::kSendStream
                 ? std::max(1u, hello.ReceiveDepth() / 4)
                 : hello.ReceiveBatch()),
      unposted_(hello.ReceiveDepth()) {
  const uint32_t slots = std::max(SlotsOf(hello), hello.ReceiveDepth());
  for (uint32_t i = slots; i-- > 0;) free_.push_back(i);
  PostReceives();
}

void VerbsResponder::PostReceives() {
  const bool bytes = hello_.plan == VerbsPlan::kSmallEcho ||
                     hello_.plan == VerbsPlan::kSendStream;
  for (; unposted_ > 0 && !free_.empty(); --unposted_) {
    end_.QueueReceive(free_.back(), stride_ * free_.back(),
                      static_cast<uint32_t>(bytes ? stride_ : 0));
    free_.pop_back();
  }
  end_.FlushReceives();
}

bool VerbsResponder::Poll() {
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
  if (hello_.plan == VerbsPlan::kSendStream && end_.send_room() > 0) {
    // Posted before the client may use them.
    end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = posted;
    end_.FlushSends();
  }
  return true;
}

void VerbsResponder::OnReceive(const ibv_wc& completion) {
  ++unposted_;
  if (hello_.plan == VerbsPlan::kSmallEcho) return Echo(completion);
  free_.push_back(static_cast<uint32_t>(completion.wr_id));
  if (hello_.plan == VerbsPlan::kBulkEcho) Fetch(completion.imm_data);
}

void VerbsResponder::Echo(const ibv_wc& completion) {
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  // A correct client has fewer messages under way than there is room for.
  const bool room = end_.send_room() > 0;
  if (room) end_.Queue(IBV_WR_SEND, stride_ * slot, completion.byte_len);
  if (!room || completion.byte_len <= end_.inline_bytes()) {
    // Posting it copies it, and that is before the receive is posted.
    free_.push_back(slot);
  } else {
    leaving_.emplace_back(slot, end_.queued());
  }
}

void VerbsResponder::Fetch(uint32_t slot) {
  // Only of a client that breaks the plan is there anything to refuse.
  if (slot >= hello_.outstanding || reading_.size() >= hello_.outstanding ||
      end_.send_room() < RequestsOfCall(hello_, chunk_bytes_)) {
    return;
  }
  reading_.push_back(slot);
  Move(slot, IBV_WR_RDMA_READ, slot);
}

void VerbsResponder::OnReadComplete() {
  if (reading_.empty()) return;
  const uint32_t slot = reading_.front();
  reading_.pop_front();
  Move(slot, IBV_WR_RDMA_WRITE, hello_.outstanding + slot);
  end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data = slot;
}

void VerbsResponder::Move(uint32_t slot, ibv_wr_opcode opcode,
                          uint64_t remote_slot) {
  uint64_t done = 0;
  do {
    const uint64_t length = std::min(chunk_bytes_, hello_.size_bytes - done);
    ibv_send_wr& request = end_.Queue(opcode, stride_ * slot + done,
                                      static_cast<uint32_t>(length));
    request.wr.rdma = {hello_.address + stride_ * remote_slot + done,
                       hello_.rkey};
    done += length;
    if (done == hello_.size_bytes && opcode == IBV_WR_RDMA_READ) {
      request.send_flags |= IBV_SEND_SIGNALED;
    }
  } while (done < hello_.size_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsServer>> VerbsServer::Start(
    const transport::Provider& provider, const base::SocketAddress& address) {
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  base::UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  std::unique_ptr<VerbsServer> server = absl::WrapUnique(
      new VerbsServer(provider, std::move(channel), std::move(stop)));
  ASSIGN_OR_RETURN(CmId listener, CmId::Create(provider, server->channel_));
  RETURN_IF_ERROR(listener.BindAddr(address));
  RETURN_IF_ERROR(listener.Listen(kBacklog));
  server->port_ = listener.SrcPort();
  server->listener_.emplace(std::move(listener));
  server->thread_ = std::thread([server = server.get()] { server->Run(); });
  return server;
}

VerbsServer::VerbsServer(const transport::Provider& provider,
                         EventChannel channel, base::UniqueFd stop)
    : provider_(provider),
      stop_(std::move(stop)),
      channel_(std::move(channel)) {}

VerbsServer::~VerbsServer() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

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

absl::Status VerbsServer::Serve(const CmEvent& request) {
  // Of its own: others who want to connect wait in the listener's meanwhile.
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
  ASSIGN_OR_RETURN(const VerbsLimits device, VerbsLimits::Of(provider_, id));
  ASSIGN_OR_RETURN(const std::unique_ptr<VerbsEnd> end,
                   VerbsEnd::Create(provider_, std::move(id),
                                    VerbsResponder::EndOptions(
                                        *hello, device.message_bytes)));
  VerbsResponder responder(*end, *hello, device.message_bytes);
  RETURN_IF_ERROR(end->status());
  hello->address = end->address();
  hello->rkey = end->rkey();
  transport::ConnectionParameters parameters;
  parameters.private_data = hello->bytes();
  parameters.responder_resources = device.reads;
  parameters.initiator_depth = std::min(device.reads, request.initiator_depth);
  RETURN_IF_ERROR(end->id().Accept(parameters));

  // Whether nothing has happened that ends the connection.
  const auto goes_on = [&channel, this] {
    while (!stopping_) {
      const absl::StatusOr<std::optional<CmEvent>> event = channel->Poll();
      if (!event.ok()) return false;
      if (!event->has_value()) return true;
      if ((*event)->type != RDMA_CM_EVENT_ESTABLISHED) return false;
    }
    return false;
  };
  for (int idle = 0; end->status().ok();) {
    if (responder.Poll()) {
      idle = 0;
    } else if (hello->events != 0) {
      end->Arm();
      if (responder.Poll()) continue;
      if (end->Wait({channel->fd(), stop_.get()}, absl::InfiniteFuture()) &&
          !goes_on()) {
        break;
      }
    } else if (++idle % kPollsPerLook == 0) {
      // Whatever drives the device may need this processor.
      std::this_thread::yield();
      if (!goes_on()) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::bench
