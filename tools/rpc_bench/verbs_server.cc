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
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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

absl::Span<const uint8_t> BytesIn(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
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
  while (GoOn(nullptr)) {
    if (requests_.empty()) {
      pollfd polled[] = {{.fd = channel_.fd(), .events = POLLIN, .revents = 0},
                         {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      poll(polled, std::size(polled), -1);
      continue;
    }
    Request request = std::move(requests_.front());
    requests_.pop_front();
    const absl::Status status = Serve(std::move(request));
    if (status.ok()) continue;
    std::cerr << "rpc_bench: verbs layer: " << status << std::endl;
  }
}

bool VerbsServer::GoOn(const rdma_cm_id* serving) {
  while (!stopping_) {
    absl::StatusOr<std::optional<CmEvent>> event = channel_.Poll();
    if (!event.ok()) return false;
    if (!event->has_value()) return true;
    if ((*event)->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      const absl::Span<const uint8_t> data = (*event)->private_data();
      requests_.push_back({CmId::Adopt(provider_, (*event)->id),
                           std::string(data.begin(), data.end()),
                           (*event)->initiator_depth});
    } else if (serving != nullptr && (*event)->id == serving &&
               (*event)->type != RDMA_CM_EVENT_ESTABLISHED) {
      return false;
    }
  }
  return false;
}

absl::Status VerbsServer::Serve(Request request) {
  const absl::StatusOr<VerbsHello> hello =
      DecodeHello(BytesIn(request.private_data));
  if (!hello.ok()) {
    const std::string reason(hello.status().message());
    RETURN_IF_ERROR(request.id.Reject(BytesIn(reason)));
    return hello.status();
  }
  ASSIGN_OR_RETURN(const VerbsLimits device,
                   VerbsLimits::Of(provider_, request.id));
  ASSIGN_OR_RETURN(const std::unique_ptr<VerbsEnd> end,
                   VerbsEnd::Create(provider_, std::move(request.id),
                                    VerbsResponder::EndOptions(
                                        *hello, device.message_bytes)));
  VerbsResponder responder(*end, *hello, device.message_bytes);
  RETURN_IF_ERROR(end->status());
  VerbsWelcome welcome;
  welcome.address = end->address();
  welcome.rkey = end->rkey();
  transport::ConnectionParameters parameters;
  parameters.private_data = BytesOf(welcome);
  parameters.responder_resources = device.reads;
  parameters.initiator_depth = std::min(device.reads, request.initiator_depth);
  RETURN_IF_ERROR(end->id().Accept(parameters));
  Answer(*end, responder, hello->events != 0);
  return absl::OkStatus();
}

void VerbsServer::Answer(VerbsEnd& end, VerbsResponder& responder,
                         bool events) {
  const rdma_cm_id* const id = end.id().get();
  const int fds[] = {channel_.fd(), stop_.get()};
  for (int idle = 0; end.status().ok();) {
    if (responder.Poll() > 0) {
      idle = 0;
    } else if (events) {
      end.Arm();
      if (responder.Poll() > 0) continue;
      if (end.Wait(fds, absl::InfiniteFuture()) && !GoOn(id)) return;
    } else if (++idle % kPollsPerLook == 0) {
      // Whatever drives the device may need this processor.
      std::this_thread::yield();
      if (!GoOn(id)) return;
    }
  }
}

}  // namespace verbena::bench
