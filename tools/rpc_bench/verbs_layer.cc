#include "tools/rpc_bench/verbs_layer.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/load/echo_loop.h"
#include "tools/rpc_bench/verbs_end.h"
#include "tools/rpc_bench/verbs_hello.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

using transport::CmEvent;
using transport::CmId;
using transport::EventChannel;

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

// Removes the first of a queue that is not empty.
int Pop(std::deque<int>& queue) {
  const int first = queue.front();
  queue.pop_front();
  return first;
}

// Calls of one case, chained into as few doorbells as there are polls.
class VerbsPipe final : public EchoPipe {
 public:
  // Posts the receives, so call it before the connection is made. `end` must
  // outlive the pipe.
  VerbsPipe(VerbsEnd& end, const Case& measured)
      : end_(end),
        hello_(end.hello()),
        op_(measured.op),
        check_(measured.validate),
        last_request_(hello_.outstanding),
        granted_(hello_.ReceiveDepth()) {
    const std::string payload = Payload(hello_.size_bytes);
    for (uint32_t i = 0; i < hello_.outstanding; ++i) {
      std::copy(payload.begin(), payload.end(), end_.Slot(i).begin());
    }
    for (uint32_t i = 0; i < hello_.ReceiveDepth(); ++i) PostAgain(i);
    end_.FlushReceives();
  }

  // Sets the server's hello. Call it once, when the connection is there.
  void set_server(const VerbsHello& server) { server_ = server; }

  void Start(int slot) override {
    check_.Stamp(end_.Slot(slot));
    // A SEND without a receive at the server would be retried, and spoil the
    // measurement.
    if (hello_.plan == VerbsPlan::kSendStream && sent_ == granted_) {
      waiting_.push_back(slot);
    } else {
      Send(slot);
    }
  }

  // Sends go out first. Without --events, or if something came, it does not
  // wait.
  absl::Status Poll(Sink& sink, absl::Time until) override {
    end_.FlushSends();
    if (PollOnce(sink) > 0 || hello_.events == 0 || base::Now() >= until) {
      return end_.status();
    }
    end_.Arm();
    // Polls once more, because a completion that came before the queue was
    // armed wakes nobody.
    if (PollOnce(sink) == 0 && end_.status().ok()) end_.Wait({-1, -1}, until);
    return end_.status();
  }

 private:
  // Returns the number of completions.
  size_t PollOnce(Sink& sink) {
    const absl::Span<const ibv_wc> completions = end_.Poll();
    for (const ibv_wc& completion : completions) {
      if (completion.opcode != IBV_WC_RECV) continue;
      OnReceive(sink, completion);
      PostAgain(completion.wr_id);
    }
    // The calls of a stream end when their requests are complete.
    while (hello_.plan >= VerbsPlan::kSendStream && !under_way_.empty() &&
           last_request_[under_way_.front()] <= end_.completed()) {
      sink.OnEnded(Pop(under_way_), absl::OkStatus());
    }
    // The calls that replies have started go out before receives are posted,
    // because the peer waits for these calls.
    end_.FlushSends();
    if (end_.queued_receives() >= hello_.ReceiveBatch()) end_.FlushReceives();
    return completions.size();
  }

  // A receive means by plan: an echo, the number of an echo that was written,
  // or receives that the server has posted again.
  void OnReceive(Sink& sink, const ibv_wc& completion) {
    switch (hello_.plan) {
      case VerbsPlan::kSmallEcho: {
        // Answers come in the order of the questions.
        if (under_way_.empty()) return;
        const int slot = Pop(under_way_);
        const absl::Span<const uint8_t> got(
            end_.Memory(hello_.outstanding + completion.wr_id),
            completion.byte_len);
        sink.OnEnded(slot, check_.Compare(got, end_.Slot(slot)));
        break;
      }
      case VerbsPlan::kBulkEcho: {
        const uint32_t slot = completion.imm_data;
        if (slot >= hello_.outstanding) return;
        sink.OnEnded(static_cast<int>(slot),
                     check_.Compare(end_.Slot(hello_.outstanding + slot),
                                    end_.Slot(slot)));
        break;
      }
      case VerbsPlan::kSendStream:
        granted_ += completion.imm_data;
        while (!waiting_.empty() && sent_ < granted_) Send(Pop(waiting_));
        break;
      case VerbsPlan::kMemoryStream:
        break;
    }
  }

  // A bulk echo sends the number of the slot alone; the server READs the bytes.
  void Send(int slot) {
    ++sent_;
    if (hello_.plan == VerbsPlan::kBulkEcho) {
      end_.Queue(IBV_WR_SEND_WITH_IMM, 0, 0).imm_data =
          static_cast<uint32_t>(slot);
      return;
    }
    ibv_send_wr& request =
        end_.Queue(op_ == Op::kWrite  ? IBV_WR_RDMA_WRITE
                   : op_ == Op::kRead ? IBV_WR_RDMA_READ
                                      : IBV_WR_SEND,
                   end_.Offset(slot), static_cast<uint32_t>(hello_.size_bytes));
    request.wr.rdma = {server_.address + end_.Offset(slot), server_.rkey};
    last_request_[slot] = end_.queued();
    under_way_.push_back(slot);
  }

  void PostAgain(uint64_t receive) {
    end_.QueueReceive(receive, hello_.outstanding + receive);
  }

  VerbsEnd& end_;
  const VerbsHello hello_;
  const Op op_;
  VerbsHello server_;
  EchoCheck check_;
  std::deque<int> waiting_;             // Slots that wait for receives.
  std::deque<int> under_way_;           // Slots, in the order of requests.
  std::vector<uint64_t> last_request_;  // The last request of each slot.
  uint64_t granted_;  // SENDs of a stream that the server has receives for.
  uint64_t sent_ = 0;
};

// Waits for the next event of a connection to `peer`, which is to be `wanted`.
absl::StatusOr<CmEvent> AwaitStep(EventChannel& channel,
                                  rdma_cm_event_type wanted,
                                  const std::string& peer) {
  ASSIGN_OR_RETURN(const std::optional<CmEvent> event,
                   channel.WaitEvent(kConnectTimeout));
  if (event.has_value()) {
    if (event->type == wanted) return *event;
    if (event->type == RDMA_CM_EVENT_REJECTED &&
        event->status == transport::kRejectByApplication) {
      const absl::Span<const uint8_t> reason = event->private_data();
      const auto end = std::find(reason.begin(), reason.end(), 0);
      return absl::FailedPreconditionError(absl::StrCat(
          peer, " refused the connection: ", std::string(reason.begin(), end)));
    }
    RETURN_IF_ERROR(CmEventStatus(*event, peer));
  }
  return absl::UnavailableError(absl::StrCat(
      "connecting to ", peer, " failed: expected ",
      transport::CmEventName(wanted), ", got ",
      event.has_value() ? transport::CmEventName(event->type) : "nothing"));
}

class VerbsLayer final : public Layer {
 public:
  VerbsLayer(const base::SocketAddress& server, std::string device, bool events)
      : server_(server), device_(std::move(device)), events_(events) {}

  absl::string_view name() const override { return "verbs"; }

  // Goes through the steps of the connection manager one by one. VerbsPipe
  // posts its receives before Connect(), so that the server's first SEND finds
  // one.
  absl::Status Prepare(const Case& measured) override {
    const transport::Provider& provider =
        transport::ChooseProvider(server_, device_);
    const std::string peer = server_.ToString();
    ASSIGN_OR_RETURN(channel_, EventChannel::Create(provider));
    ASSIGN_OR_RETURN(CmId id, CmId::Create(provider, *channel_));
    RETURN_IF_ERROR(id.ResolveAddr({}, server_, kConnectTimeout));
    RETURN_IF_ERROR(
        AwaitStep(*channel_, RDMA_CM_EVENT_ADDR_RESOLVED, peer).status());
    const std::string device =
        provider.verbs.get_device_name(id.context()->device);
    if (!device_.empty() && device_ != device) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the route to ", peer, " goes through the device ", device,
          ", not through ", device_, ", which --device names"));
    }
    RETURN_IF_ERROR(id.ResolveRoute(kConnectTimeout));
    RETURN_IF_ERROR(
        AwaitStep(*channel_, RDMA_CM_EVENT_ROUTE_RESOLVED, peer).status());

    end_ = std::make_unique<VerbsEnd>(provider, std::move(id),
                                      HelloOf(measured, events_),
                                      VerbsSide::kClient);
    RETURN_IF_ERROR(end_->status());
    auto pipe = std::make_unique<VerbsPipe>(*end_, measured);
    RETURN_IF_ERROR(end_->id().Connect(end_->Parameters()));
    ASSIGN_OR_RETURN(const CmEvent event,
                     AwaitStep(*channel_, RDMA_CM_EVENT_ESTABLISHED, peer));
    ASSIGN_OR_RETURN(const VerbsHello server,
                     DecodeHello(event.private_data()));
    pipe->set_server(server);
    pipe_ = std::move(pipe);
    return absl::OkStatus();
  }

  Sample Run(const Case& measured, absl::Duration duration) override {
    return RunEchoes(*pipe_, measured, duration);
  }

  void Release() override {
    pipe_.reset();
    end_.reset();
    channel_.reset();
  }

 private:
  const base::SocketAddress server_;
  const std::string device_;
  const bool events_;
  // The connection of a case, in the order of dependence; nothing between
  // Release() and Prepare().
  std::optional<EventChannel> channel_;
  std::unique_ptr<VerbsEnd> end_;
  std::unique_ptr<EchoPipe> pipe_;
};

}  // namespace

std::unique_ptr<Layer> NewVerbsLayer(const base::SocketAddress& server,
                                     const std::string& device, bool events) {
  return std::make_unique<VerbsLayer>(server, device, events);
}

}  // namespace verbena::bench
