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
#include "tools/rpc_bench/verbs_device.h"
#include "tools/rpc_bench/verbs_layout.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"

namespace verbena::bench {
namespace {

using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

absl::Status CheckChoice(absl::string_view flag, int wanted, int chosen,
                         const std::string& peer) {
  if (wanted == chosen) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      flag, "=", wanted, ": the connection manager has chosen ", chosen,
      " by the route to ", peer,
      ", and takes no wishes; name an address that is reached as you want"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsLayer>> VerbsLayer::Create(
    const base::SocketAddress& server, const VerbsOptions& options) {
  const transport::Provider& provider =
      transport::ChooseProvider(server, options.device);
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  return absl::WrapUnique(
      new VerbsLayer(provider, server, options, std::move(channel)));
}

VerbsLayer::VerbsLayer(const transport::Provider& provider,
                       const base::SocketAddress& server,
                       const VerbsOptions& options, EventChannel channel)
    : provider_(provider),
      server_(server),
      options_(options),
      channel_(std::move(channel)) {}

VerbsLayer::~VerbsLayer() { Release(); }

VerbsHello VerbsLayer::HelloFor(const Case& measured) const {
  VerbsHello hello;
  switch (measured.op) {
    case Op::kEcho:
      hello.plan = measured.size_bytes > options_.bulk_threshold_bytes
                       ? VerbsPlan::kBulkEcho
                       : VerbsPlan::kSmallEcho;
      break;
    case Op::kSend:
      hello.plan = VerbsPlan::kSendStream;
      break;
    case Op::kWrite:
    case Op::kRead:
      hello.plan = VerbsPlan::kMemoryStream;
      break;
  }
  hello.events = options_.events;
  hello.outstanding = static_cast<uint32_t>(measured.outstanding);
  hello.size_bytes = measured.size_bytes;
  hello.receive_depth = options_.receive_depth;
  hello.inline_bytes = options_.inline_bytes;
  return hello;
}

absl::Status VerbsLayer::CheckCase(const VerbsHello& hello,
                                   uint64_t max_message_bytes) const {
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
  if (options_.receive_depth > 0 &&
      options_.receive_depth < ReceiveDepth(hello)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rx-depth=", options_.receive_depth,
                     " is too little for ", hello.outstanding,
                     " outstanding: so that every message finds a receive "
                     "it takes ",
                     ReceiveDepth(hello)));
  }
  return absl::OkStatus();
}

absl::Status VerbsLayer::AwaitStep(const rdma_cm_id* id,
                                   rdma_cm_event_type wanted,
                                   VerbsWelcome* welcome) {
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  const std::string peer = server_.ToString();
  while (absl::Now() < deadline) {
    ASSIGN_OR_RETURN(const std::optional<CmEvent> event,
                     channel_.WaitEvent(deadline - absl::Now()));
    // Of a connection of before, it may be late.
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
    if (event->type != wanted) continue;
    if (welcome == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(*welcome, DecodeWelcome(event->private_data()));
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("connecting to ", peer,
                                             " timed out while waiting for ",
                                             transport::CmEventName(wanted)));
}

absl::StatusOr<CmId> VerbsLayer::Resolve() {
  ASSIGN_OR_RETURN(CmId id, CmId::Create(provider_, channel_));
  RETURN_IF_ERROR(id.ResolveAddr({}, server_, kConnectTimeout));
  RETURN_IF_ERROR(AwaitStep(id.get(), RDMA_CM_EVENT_ADDR_RESOLVED));
  const std::string device =
      provider_.verbs.get_device_name(id.context()->device);
  if (!options_.device.empty() && options_.device != device) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the route to ", server_.ToString(), " goes through the device ",
        device, ", not through ", options_.device, " as was asked for"));
  }
  RETURN_IF_ERROR(id.ResolveRoute(kConnectTimeout));
  RETURN_IF_ERROR(AwaitStep(id.get(), RDMA_CM_EVENT_ROUTE_RESOLVED));
  return id;
}

absl::Status VerbsLayer::Prepare(const Case& measured) {
  ASSIGN_OR_RETURN(CmId id, Resolve());
  VerbsHello hello = HelloFor(measured);
  ASSIGN_OR_RETURN(const VerbsDevice device, VerbsDevice::Of(provider_, id));
  RETURN_IF_ERROR(CheckCase(hello, device.max_message_bytes));
  const VerbsEnd::Options end_options = VerbsPipe::EndOptions(hello);
  ASSIGN_OR_RETURN(end_,
                   VerbsEnd::Create(provider_, std::move(id), end_options));
  if (options_.inline_required && end_->inline_bytes() < hello.inline_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("--inline=", hello.inline_bytes, ": the device takes ",
                     end_->inline_bytes(), " bytes"));
  }
  pipe_ = VerbsPipe::Create(*end_, hello, measured);
  RETURN_IF_ERROR(end_->status());

  hello.address = end_->address();
  hello.rkey = end_->rkey();
  const std::string data = EncodeHello(hello);
  transport::ConnectionParameters parameters;
  parameters.private_data = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(data.data()), data.size());
  parameters.responder_resources = device.max_reads;
  parameters.initiator_depth = device.max_reads;
  RETURN_IF_ERROR(end_->id().Connect(parameters));
  VerbsWelcome welcome;
  RETURN_IF_ERROR(
      AwaitStep(end_->id().get(), RDMA_CM_EVENT_ESTABLISHED, &welcome));
  pipe_->set_welcome(welcome);
  return CheckPath();
}

absl::Status VerbsLayer::CheckPath() const {
  ASSIGN_OR_RETURN(const VerbsPath path, VerbsPath::Of(provider_, end_->id()));
  const std::string peer = server_.ToString();
  if (options_.ib_port != 0) {
    RETURN_IF_ERROR(
        CheckChoice("--ib-port", options_.ib_port, path.port, peer));
  }
  if (options_.gid_index >= 0) {
    RETURN_IF_ERROR(
        CheckChoice("--gid-index", options_.gid_index, path.gid_index, peer));
  }
  if (options_.mtu_bytes != 0) {
    RETURN_IF_ERROR(
        CheckChoice("--mtu", options_.mtu_bytes, path.mtu_bytes, peer));
  }
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
