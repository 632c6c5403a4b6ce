// Two streams over a pair of sockets, and the queue pairs at their links, which
// a test plays.

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_TEST_STREAM_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_TEST_STREAM_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {

// A packet that was taken from a ring.
struct TakenPacket {
  PacketKind kind = PacketKind::kNone;
  uint8_t flags = 0;
  uint32_t number = 0;
  uint32_t rkey = 0;
  uint32_t value = 0;
  uint64_t address = 0;
  std::string payload = {};

  bool operator==(const TakenPacket&) const = default;
};

// A link, the queue pair at one end of it and the stream at the other.
class TestStream {
 public:
  explicit TestStream(const IwarpStream::Terms& terms);

  // Puts a packet into the ring as the queue pair does. Returns whether it had
  // room.
  bool Put(Packet packet, absl::string_view payload = "");
  // Takes all packets that the queue pair finds in its ring.
  std::vector<TakenPacket> Take();
  // Returns how many requests the queue pair is told that the peer has
  // executed.
  uint32_t Executed();
  // Has the queue pair execute requests of the peer.
  void Execute(uint32_t count);

  LinkEnd queue_pair;
  LinkEnd link;
  IwarpStream stream;
};

// Text of a length at which every place looks different.
std::string Pattern(size_t bytes, uint32_t seed = 0);

// An FPDU, as a peer sends it.
std::string Fpdu(DdpSegment segment, absl::string_view payload = "",
                 bool crc = true);

// The encoding of a payload.
template <typename Body>
std::string BodyText(const Body& body) {
  std::string text(Body::kBytes, '\0');
  body.Encode(reinterpret_cast<std::byte*>(text.data()));
  return text;
}
std::string MessageText(const StreamMessage& message);

// Two connected stream sockets that do not block.
struct SocketPair {
  // With buffers of the kernel's choice if `buffer_bytes` is 0.
  explicit SocketPair(int buffer_bytes = 0);
  base::UniqueFd a;
  base::UniqueFd b;
};

inline constexpr uint8_t kWhole = kPacketFirst | kPacketLast;

// Two queue pairs, a link and a stream for each, and a connection in between.
class StreamPairTest : public testing::Test {
 protected:
  explicit StreamPairTest(bool extended = true, int buffer_bytes = 0)
      : sockets(buffer_bytes),
        near({.crc = true, .extended = extended}),
        far({.crc = true, .extended = extended}) {}

  // Moves what there is to move, both ways, and takes what arrives.
  void Run();

  // Sends a message in segments as a requester does.
  void PutSegments(Packet packet, const std::string& data);

  static std::string Joined(const std::vector<TakenPacket>& packets);

  SocketPair sockets;
  TestStream near;
  TestStream far;
  std::vector<TakenPacket> arrived;  // At the far queue pair.
  std::vector<TakenPacket> answers;  // At the near one.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_TEST_STREAM_H_
