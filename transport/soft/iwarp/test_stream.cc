#include "transport/soft/iwarp/test_stream.h"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/check.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {

TestStream::TestStream(const IwarpStream::Terms& terms) : stream(link, terms) {
  LinkMemory memory = *LinkMemory::Create();
  link.Attach(*LinkMemory::Map(memory.fd()), LinkSide::kSecond, -1);
  queue_pair.Attach(std::move(memory), LinkSide::kFirst, -1);
  queue_pair.SetState(kLinkOpen);
}

bool TestStream::Put(Packet packet, absl::string_view payload) {
  packet.payload_bytes = static_cast<uint32_t>(payload.size());
  std::byte* const to = queue_pair.Reserve(packet.payload_bytes);
  if (to == nullptr) return false;
  std::memcpy(to, payload.data(), payload.size());
  queue_pair.Publish(packet);
  return true;
}

std::vector<TakenPacket> TestStream::Take() {
  std::vector<TakenPacket> taken;
  Packet packet;
  while (true) {
    const LinkEnd::Incoming incoming = queue_pair.Peek(packet);
    if (incoming == LinkEnd::Incoming::kNothing) break;
    CHECK(incoming == LinkEnd::Incoming::kPacket);
    taken.push_back({packet.kind,
                     packet.flags,
                     packet.number,
                     packet.rkey,
                     packet.value,
                     packet.address,
                     {reinterpret_cast<const char*>(packet.payload),
                      packet.payload_bytes}});
    queue_pair.Consume(packet);
  }
  queue_pair.TellProgress();
  return taken;
}

uint32_t TestStream::Executed() {
  uint32_t executed = 0;
  CHECK(queue_pair.ReadPeerProgress(executed));
  return executed;
}

void TestStream::Execute(uint32_t count) {
  queue_pair.set_executed(count);
  queue_pair.TellProgress();
}

std::string Pattern(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  uint32_t state = seed * 2654435761u + 12345;
  for (char& byte : text) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return text;
}

std::string Fpdu(DdpSegment segment, absl::string_view payload, bool crc) {
  segment.payload_bytes = static_cast<uint32_t>(payload.size());
  std::byte header[kSegmentHeaderBytesMax];
  const size_t header_bytes = EncodeSegment(segment, header);
  std::string text(reinterpret_cast<const char*>(header), header_bytes);
  text.append(payload.data(), payload.size());
  text.resize((text.size() + 3) & ~size_t{3});
  const uint32_t sum =
      crc ? MpaCrc(reinterpret_cast<const std::byte*>(text.data()), text.size())
          : 0;
  text.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return text;
}

std::string MessageText(const StreamMessage& message) {
  std::string text(message.bytes(), '\0');
  auto* const to = reinterpret_cast<std::byte*>(text.data());
  StoreBig32(to, static_cast<uint32_t>(message.kind));
  StoreBig64(to + 4, message.words[0]);
  StoreBig64(to + 12, message.words[1]);
  std::memcpy(to + StreamMessage::kHeadBytes, message.cm.data(),
              text.size() - StreamMessage::kHeadBytes);
  return text;
}

SocketPair::SocketPair(int buffer_bytes) {
  int sockets[2];
  CHECK_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                        sockets),
           0);
  a = base::UniqueFd(sockets[0]);
  b = base::UniqueFd(sockets[1]);
  if (buffer_bytes == 0) return;
  for (const int socket : sockets) {
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes,
                 sizeof(buffer_bytes));
  }
}

void StreamPairTest::Run() {
  for (bool moved = true; moved;) {
    moved = near.stream.Send(sockets.a.get());
    moved |= far.stream.Receive(sockets.b.get());
    moved |= far.stream.Send(sockets.b.get());
    moved |= near.stream.Receive(sockets.a.get());
    for (TakenPacket& packet : far.Take()) {
      arrived.push_back(std::move(packet));
      moved = true;
    }
    for (TakenPacket& packet : near.Take()) {
      answers.push_back(std::move(packet));
      moved = true;
    }
  }
  EXPECT_FALSE(near.stream.broken()) << near.stream.error();
  EXPECT_FALSE(far.stream.broken()) << far.stream.error();
}

void StreamPairTest::PutSegments(Packet packet, const std::string& data) {
  const uint8_t flags_of_last = packet.flags;
  uint32_t offset = 0;
  bool last = false;
  while (!last) {
    const auto left = static_cast<uint32_t>(data.size()) - offset;
    const uint32_t bytes = SegmentBytes(offset, left);
    last = bytes == left;
    packet.flags = offset == 0 ? kPacketFirst : 0;
    if (last) packet.flags |= flags_of_last | kPacketLast;
    while (!near.Put(packet, data.substr(offset, bytes))) Run();
    offset += bytes;
  }
}

std::string StreamPairTest::Joined(const std::vector<TakenPacket>& packets) {
  std::string text;
  for (const TakenPacket& packet : packets) text += packet.payload;
  return text;
}

}  // namespace verbena::soft
