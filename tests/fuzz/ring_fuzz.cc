// A peer that writes whatever it likes into the ring of a link and into the
// words beside it, while the queue pair works on it.

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "tests/fuzz/descriptors.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"
#include "transport/soft/simulation.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using fuzz::FuzzInput;

constexpr size_t kMemoryBytes = 32768;
constexpr uint32_t kPlaces = 256;  // In which places of memory differ.
constexpr uint32_t kCompletions = 64;

TestEndOptions Options(FuzzInput& input) {
  TestEndOptions options;
  options.memory_bytes = kMemoryBytes;
  options.completions = kCompletions;
  options.type = input.Below(4) == 0 ? IBV_QPT_UC : IBV_QPT_RC;
  options.with_channel = input.Bool();
  options.shared_receives = input.Bool() ? 8 : 0;
  options.access |= input.Bool() ? IBV_ACCESS_REMOTE_ATOMIC : 0;
  return options;
}

class RingFuzzer {
 public:
  explicit RingFuzzer(FuzzInput input) : input_(input) {
    CHECK_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sockets_),
             0);
    peer_.Attach(*LinkMemory::Map(memory_.fd()), LinkSide::kSecond,
                 sockets_[1]);
    queue_pair_.AttachLink(*LinkMemory::Map(memory_.fd()), LinkSide::kFirst,
                           sockets_[0]);
    peer_.SetState(kLinkOpen);
    end_.Connect(4711);
  }
  ~RingFuzzer() {
    queue_pair_.DetachLink();
    ::close(sockets_[0]);
    ::close(sockets_[1]);
  }

  void Run() {
    while (!input_.empty()) {
      Step();
      end_.RunProtocol();
    }
    simulation_.RunFor(std::chrono::milliseconds(10));
    // No more requests complete than were posted.
    CHECK_EQ(end_.To(IBV_QPS_ERR), 0);
    for (int i = 0; i < 4; ++i) Poll();
    CHECK_LE(completed_, posted_);
  }

 private:
  void Step() {
    switch (input_.Below(9)) {
      case 0:
      case 1:
        return Publish();
      case 2:
        return OverwriteWord();
      case 3:
        return OverwriteRing();
      case 4:
        return PostSend();
      case 5: {
        const size_t length = input_.Take<uint16_t>() % kMemoryBytes;
        if (HasRoom() && end_.Receive(posted_, 0, length) == 0) ++posted_;
        return;
      }
      case 6:
        return Poll();
      case 7:
        queue_pair_.OnDoorbell();
        simulation_.RunFor(std::chrono::microseconds(input_.Take<uint16_t>()));
        return;
      default:
        if (input_.Below(16) == 0) queue_pair_.OnPeerGone();
    }
  }

  uint32_t Key() {
    const uint32_t choice = input_.Below(4);
    return choice == 0 ? input_.Take<uint32_t>() : end_.mr->rkey + choice / 3;
  }
  uint64_t Address() {
    return input_.Below(4) == 0
               ? input_.Take<uint64_t>()
               : end_.Address(0) + input_.Below(kPlaces) * kMemoryBytes / 250;
  }
  uint32_t Length() {
    return input_.Bool() ? input_.Below(128) : input_.Take<uint16_t>();
  }

  // Sends a packet as a peer would, with any contents.
  void Publish() {
    Packet packet;
    packet.kind = static_cast<PacketKind>(input_.Below(10));
    packet.flags = input_.Take<uint8_t>();
    const uint32_t numbering = input_.Below(8);
    packet.number = numbering == 0 ? input_.Take<uint32_t>() : next_number_;
    if ((packet.flags & kPacketLast) != 0 && numbering != 1) ++next_number_;
    packet.payload_bytes = Length() % (kSegmentBytes + 1);
    packet.rkey = Key();
    packet.address = Address();
    packet.value = input_.Bool() ? packet.payload_bytes : Length();
    if (input_.Below(8) == 0) packet.value = input_.Take<uint32_t>();
    peer_.set_executed(executed_ += input_.Below(8) == 0 ? input_.Below(4) : 0);
    std::byte* const payload = peer_.Reserve(packet.payload_bytes);
    if (payload == nullptr) return;
    const absl::Span<const uint8_t> bytes =
        input_.Bytes(std::min<size_t>(packet.payload_bytes, input_.Below(32)));
    if (!bytes.empty()) std::memcpy(payload, bytes.data(), bytes.size());
    peer_.Publish(packet);
    peer_.RingIfNeeded();
  }

  void OverwriteWord() {
    const LinkSide side =
        input_.Below(4) == 0 ? LinkSide::kFirst : LinkSide::kSecond;
    SideWords& words = memory_.words(side);
    const auto value = input_.Take<uint64_t>();
    const auto small = static_cast<uint32_t>(value);
    switch (input_.Below(8)) {
      case 0:
        words.progress = value;
        return;
      case 1:
        words.sleep = small;
        return;
      case 2:
        words.fences = small;
        return;
      case 3:
        words.bell[0] = value;
        return;
      case 4:
        words.bell[1] = value;
        return;
      case 5:
        words.bell_number = value;
        return;
      case 6:
        words.state = small % 8 == 7 ? small : small % 8;
        return;
      default:
        words.path = small;
    }
  }

  // Words of a header, with the stamp of that place or without.
  void OverwriteRing() {
    const uint32_t line = input_.Take<uint16_t>() % (kLinkRingBytes / 64);
    auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(
        memory_.ring(LinkSide::kSecond) + size_t{line} * 64);
    for (int i = 1; i < 5; ++i) {
      if (input_.Bool()) words[i] = input_.Take<uint64_t>();
    }
    if (input_.Bool()) words[0] = memory_.secret() + line;
  }

  void PostSend() {
    const size_t length = Length() % kMemoryBytes;
    int result = 0;
    if (!HasRoom()) return;
    switch (input_.Below(5)) {
      case 0:
        result = end_.Send(posted_, 0, length);
        break;
      case 1:
        result = end_.Write(posted_, 0, length, Address(), Key());
        break;
      case 2:
        result = end_.Read(posted_, 0, length, Address(), Key());
        break;
      case 3:
        result = end_.FetchAdd(posted_, 8, Address(), Key(), 1);
        break;
      default:
        result = end_.SendInvalidate(posted_, 0, length, Key());
    }
    if (result == 0) ++posted_;
  }

  // A program that posts more than its completion queue holds, and does not
  // poll, overruns that by itself.
  bool HasRoom() {
    if (posted_ - completed_ >= kCompletions) Poll();
    return posted_ - completed_ < kCompletions;
  }

  void Poll() {
    ibv_wc completion = {};
    while (end_.PollOnce(completion)) {
      ++completed_;
      CHECK_LT(completion.wr_id, posted_);
      if (completion.status == IBV_WC_SUCCESS) {
        CHECK_LE(completion.byte_len, kMemoryBytes);
      }
    }
  }

  Simulation& simulation_ = Simulation::Begin();  // Before the ends use it.
  FuzzInput input_;
  LinkMemory memory_ = *LinkMemory::Create();
  int sockets_[2];
  TestEnd end_{Options(input_)};
  ConnectedQueuePair& queue_pair_ = *ConnectedQueuePair::From(end_.qp);
  LinkEnd peer_;
  uint32_t next_number_ = 0;
  uint32_t executed_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace
}  // namespace verbena::soft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::soft::RingFuzzer({data, size}).Run();
  verbena::fuzz::CheckFewDescriptors();
  return 0;
}
