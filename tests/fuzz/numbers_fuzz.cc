// Fuzzes the sockets at which queue pairs are reached by their numbers. Any
// process of the host may send offers of links and datagrams to them.

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/fd_message.h"
#include "transport/soft/datagram/datagram.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_offer.h"
#include "transport/soft/link/number_blocks.h"
#include "transport/soft/simulation.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using fuzz::FuzzInput;

constexpr size_t kMemoryBytes = 8192;
constexpr size_t kSocketsMax = 8;

TestEndOptions SmallOptions() {
  TestEndOptions options;
  options.memory_bytes = kMemoryBytes;
  options.completions = 64;
  return options;
}

class NumbersFuzzer {
 public:
  explicit NumbersFuzzer(FuzzInput input) : input_(input) {
    CHECK_EQ(OpenDatagramSender(sender_), 0);
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      simulation_.RunFor(std::chrono::microseconds(2));
    }
    sockets_.clear();
    // Longer than an offer is kept.
    simulation_.RunFor(std::chrono::seconds(60));
  }

 private:
  void Step() {
    switch (input_.Below(8)) {
      case 0:
      case 1:
        return SendDatagram();
      case 2:
      case 3:
        return SendOffer();
      case 4: {
        const size_t length = input_.Take<uint16_t>() % kMemoryBytes;
        // Or the completion queues could be overrun: they hold what all that
        // may be posted at once becomes, and no more.
        Poll();
        datagrams_.Receive(1, 0, length);
        linked_.Receive(1, 0, length);
        return;
      }
      case 5:
        return Poll();
      case 6: {
        constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT,
                                            IBV_QPS_RTR, IBV_QPS_RTS};
        linked_.peer_number = Number();
        linked_.To(kStates[input_.Below(4)]);
        return;
      }
      default:
        simulation_.RunFor(std::chrono::milliseconds(40 * input_.Below(256)));
    }
  }

  // Returns the number of a queue pair of ours, or one that is made up.
  uint32_t Number() {
    switch (input_.Below(4)) {
      case 0:
        return datagrams_.qp->qp_num;
      case 1:
        return linked_.qp->qp_num;
      case 2:
        return 1 + input_.Below(4);
      default:
        return input_.Take<uint32_t>();
    }
  }

  void SendDatagram() {
    DatagramHeader header;
    header.flags = static_cast<uint8_t>(input_.Below(4));
    header.destination_qp = datagrams_.qp->qp_num;
    header.source_qp = 77;
    header.qkey = transport::kTestQkey;
    header.destination = header.source = datagrams_.gid.gid;
    header = ToWire(header);
    for (uint32_t changes = input_.Below(3); changes > 0; --changes) {
      const size_t at = input_.Below(sizeof(header));
      reinterpret_cast<uint8_t*>(&header)[at] = input_.Take<uint8_t>();
    }
    const size_t header_bytes =
        input_.Below(16) == 0 ? input_.Below(sizeof(header)) : sizeof(header);
    const size_t payload_bytes = input_.Take<uint16_t>() % sizeof(payload_);
    const iovec parts[] = {{&header, header_bytes}, {payload_, payload_bytes}};
    SendToQueuePair(sender_.get(), datagrams_.qp->qp_num, parts, 2);
  }

  void SendOffer() {
    LinkOffer offer;
    offer.kind = static_cast<LinkOfferKind>(input_.Below(4));
    offer.from = Number();
    offer.to = Number();
    if (input_.Below(8) == 0) {
      reinterpret_cast<uint8_t*>(&offer)[input_.Below(sizeof(offer))] =
          input_.Take<uint8_t>();
    }
    int pair[2];
    CHECK_EQ(
        ::socketpair(AF_UNIX,
                     (input_.Below(8) == 0 ? SOCK_STREAM : SOCK_SEQPACKET) |
                         SOCK_CLOEXEC | SOCK_NONBLOCK,
                     0, pair),
        0);
    const base::UniqueFd theirs(pair[0]);
    if (sockets_.size() == kSocketsMax) sockets_.pop_front();
    sockets_.emplace_back(pair[1]);
    const LinkMemory memory = *LinkMemory::Create();
    const base::UniqueFd event(::eventfd(0, EFD_CLOEXEC));
    FdsToPass fds = {memory.fd(), theirs.get()};
    switch (input_.Below(8)) {
      case 0:
        fds = kNoFds;
        break;
      case 1:
        fds[1] = -1;
        break;
      case 2:
        fds[input_.Below(2)] = event.get();
        break;
      default:
        break;
    }
    const size_t length =
        input_.Below(16) == 0 ? input_.Below(sizeof(offer)) : sizeof(offer);
    SendFdMessage(sender_.get(), &offer, length, fds,
                  NumberBlocks::SocketName(linked_.qp->qp_num));
    // Something for the link's other end to hear.
    const absl::Span<const uint8_t> bytes = input_.Bytes(input_.Below(8));
    ::send(sockets_.back().get(), bytes.data(), bytes.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void Poll() {
    ibv_wc completion;
    for (TestEnd* end : {static_cast<TestEnd*>(&datagrams_), &linked_}) {
      while (end->PollOnce(completion)) {
        if (completion.status != IBV_WC_SUCCESS) continue;
        CHECK_LE(completion.byte_len, kMemoryBytes);
      }
    }
  }

  Simulation& simulation_ = Simulation::Begin();  // Before the ends use it.
  FuzzInput input_;
  base::UniqueFd sender_;
  std::deque<base::UniqueFd> sockets_;  // The intruder's ends of links.
  uint8_t payload_[8192] = {};
  DatagramTestEnd datagrams_{SmallOptions()};
  TestEnd linked_{SmallOptions()};
};

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::soft::NumbersFuzzer({data, size}).Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
