#include "tools/rpc_bench/verbs_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "tools/rpc_bench/verbs_responder.h"
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
