#include "tools/rpc_bench/verbs_layer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/rpc_bench/echo_loop.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

absl::Status CheckCase(const VerbsHello& hello, uint64_t max_message_bytes) {
  if (VerbsPipe::EndOptions(hello).memory_bytes > kMaxVerbsMemoryBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(hello.outstanding, " outstanding of ", hello.size_bytes,
                     " bytes take more than the ", kMaxVerbsMemoryBytes,
                     " bytes of memory that the verbs layer allows"));
  }
  if (hello.plan != VerbsPlan::kBulkEcho &&
      hello.size_bytes > max_message_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device takes messages of at most ", max_message_bytes,
                     " bytes, not ", hello.size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsLayer>> VerbsLayer::Create(
    const base::SocketAddress& server, const Options& options) {
  const transport::Provider& provider =
      transport::ChooseProvider(server, options.device);
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  return absl::WrapUnique(
      new VerbsLayer(provider, server, options, std::move(channel)));
}

VerbsLayer::VerbsLayer(const transport::Provider& provider,
                       const base::SocketAddress& server,
                       const Options& options, EventChannel channel)
    : provider_(provider),
      server_(server),
      options_(options),
      channel_(std::move(channel)) {}

VerbsLayer::~VerbsLayer() { Release(); }

VerbsHello VerbsLayer::HelloFor(const Case& measured) const {
  VerbsHello hello;
  if (measured.op == Op::kSend) {
    hello.plan = VerbsPlan::kSendStream;
  } else if (measured.op != Op::kEcho) {
    hello.plan = VerbsPlan::kMemoryStream;
  } else if (measured.size_bytes > options_.bulk_threshold_bytes) {
    hello.plan = VerbsPlan::kBulkEcho;
  }
  hello.events = options_.events ? 1 : 0;
  hello.outstanding = static_cast<uint32_t>(measured.outstanding);
  hello.size_bytes = measured.size_bytes;
  return hello;
}

absl::StatusOr<CmEvent> VerbsLayer::AwaitStep(const rdma_cm_id* id,
                                              rdma_cm_event_type wanted) {
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  const std::string peer = server_.ToString();
  while (absl::Now() < deadline) {
    ASSIGN_OR_RETURN(std::optional<CmEvent> event,
                     channel_.WaitEvent(deadline - absl::Now()));
    // An event of an earlier connection may come late.
    if (!event.has_value() || event->id != id) continue;
    if (event->type == RDMA_CM_EVENT_REJECTED &&
        event->status == transport::kRejectByApplication) {
      const absl::Span<const uint8_t> reason = event->private_data();
      return absl::FailedPreconditionError(absl::StrCat(
          peer, " refuses: ",
          std::string(reason.begin(),
                      std::find(reason.begin(), reason.end(), 0))));
    }
    RETURN_IF_ERROR(CmEventStatus(*event, peer));
    if (event->type == wanted) return *std::move(event);
  }
  return absl::UnavailableError(absl::StrCat("connecting to ", peer,
                                             " timed out while waiting for ",
                                             transport::CmEventName(wanted)));
}

absl::StatusOr<CmId> VerbsLayer::Resolve() {
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider_, channel_));
  RETURN_IF_ERROR(id.ResolveAddr({}, server_, kConnectTimeout));
  RETURN_IF_ERROR(AwaitStep(id.get(), RDMA_CM_EVENT_ADDR_RESOLVED).status());
  const std::string device =
      provider_.verbs.get_device_name(id.context()->device);
  if (!options_.device.empty() && options_.device != device) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the route to ", server_.ToString(), " goes through the device ",
        device, ", not through ", options_.device, " as was asked for"));
  }
  RETURN_IF_ERROR(id.ResolveRoute(kConnectTimeout));
  RETURN_IF_ERROR(AwaitStep(id.get(), RDMA_CM_EVENT_ROUTE_RESOLVED).status());
  return id;
}

absl::Status VerbsLayer::Prepare(const Case& measured) {
  ASSIGN_OR_RETURN(CmId id, Resolve());
  VerbsHello hello = HelloFor(measured);
  ASSIGN_OR_RETURN(const VerbsLimits device, VerbsLimits::Of(provider_, id));
  RETURN_IF_ERROR(CheckCase(hello, device.message_bytes));
  ASSIGN_OR_RETURN(end_, VerbsEnd::Create(provider_, std::move(id),
                                          VerbsPipe::EndOptions(hello)));
  pipe_ = std::make_unique<VerbsPipe>(*end_, hello, measured);
  RETURN_IF_ERROR(end_->status());

  hello.address = end_->address();
  hello.rkey = end_->rkey();
  transport::ConnectionParameters parameters;
  parameters.private_data = hello.bytes();
  parameters.responder_resources = parameters.initiator_depth = device.reads;
  RETURN_IF_ERROR(end_->id().Connect(parameters));
  ASSIGN_OR_RETURN(const CmEvent event,
                   AwaitStep(end_->id().get(), RDMA_CM_EVENT_ESTABLISHED));
  ASSIGN_OR_RETURN(const VerbsHello server, DecodeHello(event.private_data()));
  pipe_->set_server(server);
  return absl::OkStatus();
}

Sample VerbsLayer::Run(const Case& measured, absl::Duration duration) {
  return RunEchoes(*pipe_, measured, duration);
}

void VerbsLayer::Release() {
  pipe_.reset();
  end_.reset();
}

}  // namespace verbena::bench
