// The connection manager, and processes that open its sockets and say what they
// like, as clients and as servers.

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/full/full_provider.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/simulation.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/completion_queue.h"
#include "transport/verbs/event_channel.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;
using fuzz::FuzzInput;
using transport::CmId;

constexpr size_t kMost = 8;  // Intruders, and identifiers.

class CmFuzzer {
 public:
  explicit CmFuzzer(FuzzInput input) : input_(input) {
    listener_.emplace(*CmId::Create(FullSoftProvider(), channel_));
    CHECK(listener_->BindAddr(SocketAddress::Loopback(AF_INET, 0)).ok());
    CHECK(listener_->Listen(/*backlog=*/4).ok());
    address_ = listener_->LocalAddress();
    bad_address_ = SocketAddress::Loopback(AF_INET, 0);
    CHECK_EQ(OpenBoundSocket(bad_address_, BindPurpose::kListen, bad_listener_),
             0);
    CHECK_EQ(::listen(bad_listener_.get(), 4), 0);
  }
  ~CmFuzzer() {
    ids_.clear();
    listener_.reset();
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      simulation_.RunFor(std::chrono::microseconds(3));
    }
    intruders_.clear();
    TakeEvents();
    // Longer than anything that it waits for.
    simulation_.RunFor(std::chrono::seconds(10));
    TakeEvents();
  }

 private:
  void Step() {
    switch (input_.Below(12)) {
      case 0:
        return Intrude();
      case 1:
      case 2:
      case 3:
        return SendMessage();
      case 4:
        return SendBytes(input_.Bytes(input_.Below(256)));
      case 5:
        if (!intruders_.empty()) intruders_.pop_front();
        return;
      case 6:
      case 7:
        return TakeEvents();
      case 8:
        return Dial();
      case 9:
        return AcceptDialled();
      case 10:
        return Answer();
      default:
        simulation_.RunFor(std::chrono::milliseconds(20 * input_.Below(256)));
    }
  }

  void Keep(base::UniqueFd socket) {
    if (intruders_.size() == kMost) intruders_.pop_front();
    intruders_.push_back(std::move(socket));
  }
  int Intruder() {
    return intruders_.empty()
               ? -1
               : intruders_[input_.Take<uint8_t>() % intruders_.size()].get();
  }

  void Intrude() {
    base::UniqueFd socket(
        ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (input_.Below(8) != 0) {
      SocketAddress from = SocketAddress::Loopback(AF_INET, 0);
      if (OpenBoundSocket(from, BindPurpose::kConnect, socket) != 0) return;
    }
    if (ConnectSocket(address_, PeerUsers(), socket) == 0) {
      Keep(std::move(socket));
    }
  }

  void SendBytes(absl::Span<const uint8_t> bytes) {
    ::send(Intruder(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // A message as a correct peer sends it, but for what the input changes.
  void SendMessage() {
    CmMessage message = {
        .type = static_cast<CmMessageType>(input_.Below(8)),
        .retry_count = 7,
        .rnr_retry_count = 7,
        .qp_num = 77,
    };
    message.SetDestination(address_);
    for (uint32_t changes = input_.Below(4); changes > 0; --changes) {
      const size_t at = input_.Take<uint8_t>() % sizeof(message);
      reinterpret_cast<uint8_t*>(&message)[at] = input_.Take<uint8_t>();
    }
    const int intruder = Intruder();
    switch (input_.Below(5)) {
      case 0:
        SendCmMessage(intruder, message);
        return;
      case 1: {
        const base::UniqueFd event(::eventfd(0, EFD_CLOEXEC));
        SendCmMessage(intruder, message, event.get());
        return;
      }
      case 2: {
        const base::UniqueFd file(::memfd_create("unsealed", MFD_CLOEXEC));
        CHECK_EQ(::ftruncate(file.get(), 1 << 20), 0);
        SendCmMessage(intruder, message, file.get());
        return;
      }
      default: {
        const LinkMemory memory = *LinkMemory::Create();
        SendCmMessage(intruder, message, memory.fd());
      }
    }
  }

  void TakeEvents() {
    while (true) {
      const auto event = channel_.Poll();
      CHECK(event.ok());
      if (!event->has_value()) return;
      if ((*event)->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        KeepId(CmId::Adopt(FullSoftProvider(), (*event)->id));
      }
      for (CmId& id : ids_) {
        if (id.get() != (*event)->id) continue;
        if ((*event)->type == RDMA_CM_EVENT_ADDR_RESOLVED) {
          id.ResolveRoute(absl::Seconds(1)).IgnoreError();
        } else if ((*event)->type == RDMA_CM_EVENT_ROUTE_RESOLVED &&
                   CreateQp(id)) {
          id.Connect(Parameters()).IgnoreError();
        }
      }
    }
  }

  void KeepId(CmId id) {
    if (ids_.size() == kMost) ids_.pop_front();
    ids_.push_back(std::move(id));
  }

  transport::ConnectionParameters Parameters() {
    transport::ConnectionParameters parameters;
    parameters.private_data = input_.Bytes(input_.Below(64));
    parameters.responder_resources = input_.Take<uint8_t>();
    parameters.initiator_depth = input_.Take<uint8_t>();
    return parameters;
  }

  bool CreateQp(CmId& id) {
    if (id.qp() != nullptr) return true;
    if (pd_.get() == nullptr) {
      const transport::VerbsOps& verbs = FullSoftProvider().verbs;
      pd_ = *transport::ProtectionDomain::Create(verbs, id.context());
      cq_ =
          *transport::CompletionQueue::Create(verbs, id.context(), 64, nullptr);
    }
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {4, 4, 1, 1, 0};
    return id.CreateQp(pd_.get(), &attributes).ok();
  }

  // Has the user act on one of its identifiers.
  void Answer() {
    if (ids_.empty()) return;
    const size_t index = input_.Take<uint8_t>() % ids_.size();
    CmId& id = ids_[index];
    ibv_wc completion;
    switch (input_.Below(5)) {
      case 0:
        if (CreateQp(id)) id.Accept(Parameters()).IgnoreError();
        return;
      case 1:
        id.Reject(input_.Bytes(input_.Below(64))).IgnoreError();
        return;
      case 2:
        id.Disconnect().IgnoreError();
        return;
      case 3:
        if (pd_.get() != nullptr) cq_.Poll(absl::MakeSpan(&completion, 1));
        return;
      default:
        ids_.erase(ids_.begin() + static_cast<ptrdiff_t>(index));
    }
  }

  // To a server that is not ours.
  void Dial() {
    CmId id = *CmId::Create(FullSoftProvider(), channel_);
    if (id.ResolveAddr({}, bad_address_, absl::Seconds(1)).ok()) {
      KeepId(std::move(id));
    }
  }

  void AcceptDialled() {
    base::UniqueFd socket(::accept4(bad_listener_.get(), nullptr, nullptr,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) Keep(std::move(socket));
  }

  Simulation& simulation_ = Simulation::Begin();  // Before the ends use it.
  FuzzInput input_;
  transport::EventChannel channel_ =
      *transport::EventChannel::Create(FullSoftProvider());
  std::optional<CmId> listener_;
  SocketAddress address_;
  SocketAddress bad_address_;
  base::UniqueFd bad_listener_;
  transport::ProtectionDomain pd_;
  transport::CompletionQueue cq_;
  std::deque<CmId> ids_;
  std::deque<base::UniqueFd> intruders_;
};

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::soft::CmFuzzer({data, size}).Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
