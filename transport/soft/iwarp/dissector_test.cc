// Wireshark reads what a stream says.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "transport/base/check.h"
#include "transport/soft/iwarp/iwarp_stream.h"
#include "transport/soft/iwarp/mpa.h"
#include "transport/soft/iwarp/test_stream.h"

namespace verbena::soft {
namespace {

// A capture of one TCP connection over IPv4.
class Capture {
 public:
  explicit Capture(const std::string& path)
      : file_(std::fopen(path.c_str(), "wb")) {
    CHECK(file_ != nullptr) << path;
    // A file of version 2.4 with bare IP packets.
    const uint32_t header[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 262144, 101};
    std::fwrite(header, sizeof(header), 1, file_);
    Frame(0, kSyn, "");
    ++sent_[0];
    Frame(1, kSyn | kAck, "");
    ++sent_[1];
    Frame(0, kAck, "");
  }
  ~Capture() { std::fclose(file_); }

  void Add(int side, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size(); at += 32768) {
      const std::string part = bytes.substr(at, 32768);
      Frame(side, kAck | kPush, part);
      sent_[side] += static_cast<uint32_t>(part.size());
    }
  }

 private:
  static constexpr uint8_t kSyn = 2, kPush = 8, kAck = 16;

  void Frame(int side, uint8_t flags, const std::string& bytes) {
    std::byte header[40] = {};
    const auto length = static_cast<uint32_t>(sizeof(header) + bytes.size());
    header[0] = std::byte{0x45};
    StoreBig16(header + 2, static_cast<uint16_t>(length));
    header[8] = std::byte{64};
    header[9] = std::byte{6};
    StoreBig32(header + 12, 0x0a000001u + static_cast<uint32_t>(side));
    StoreBig32(header + 16, 0x0a000002u - static_cast<uint32_t>(side));
    StoreBig16(header + 20, side == 0 ? 40000 : 50051);
    StoreBig16(header + 22, side == 0 ? 50051 : 40000);
    StoreBig32(header + 24, sent_[side]);
    StoreBig32(header + 28, sent_[1 - side]);
    header[32] = std::byte{0x50};
    header[33] = std::byte{flags};
    StoreBig16(header + 34, 65535);
    const uint32_t record[4] = {1700000000, ++time_, length, length};
    std::fwrite(record, sizeof(record), 1, file_);
    std::fwrite(header, sizeof(header), 1, file_);
    std::fwrite(bytes.data(), bytes.size(), 1, file_);
  }

  std::FILE* const file_;
  uint32_t sent_[2] = {1000, 2000};
  uint32_t time_ = 0;
};

void AddMpa(Capture& capture, int side, MpaKind kind) {
  MpaFrame frame;
  frame.kind = kind;
  frame.trailer = MpaTrailer{.features = 1, .qp_num = 17, .version = 2};
  std::byte bytes[kMpaFrameBytesMax];
  const size_t length = EncodeMpa(frame, bytes);
  capture.Add(side, {reinterpret_cast<const char*>(bytes), length});
}

// Moves what there is to move from one stream to the other, past the capture.
void Pass(Capture& capture, int side, TestStream& from, TestStream& to) {
  SocketPair sockets;
  from.stream.Send(sockets.a.get());
  std::string bytes(200'000, '\0');
  const ssize_t got = ::recv(sockets.b.get(), bytes.data(), bytes.size(), 0);
  if (got > 0) {
    bytes.resize(static_cast<size_t>(got));
    capture.Add(side, bytes);
    CHECK_EQ(::send(sockets.b.get(), bytes.data(), bytes.size(), 0), got);
    to.stream.Receive(sockets.a.get());
  }
  CHECK(!from.stream.broken()) << from.stream.error();
  CHECK(!to.stream.broken()) << to.stream.error();
}

// Two queue pairs that send each kind of packet, while a capture is made.
class Conversation {
 public:
  explicit Conversation(const std::string& path) : capture_(path) {
    AddMpa(capture_, 0, MpaKind::kRequest);
    AddMpa(capture_, 1, MpaKind::kReply);
  }

  void SendMessages() {
    constexpr uint8_t kEvent = kWhole | kPacketSolicited;
    Request({.kind = PacketKind::kSend, .flags = kWhole}, "hello, world");
    Request({.kind = PacketKind::kSend, .flags = kEvent}, "hello, sleeper");
    Request({.kind = PacketKind::kSend,
             .flags = kWhole | kPacketInvalidate,
             .value = 0x11223344},
            "bye");
    Request({.kind = PacketKind::kSend,
             .flags = kEvent | kPacketInvalidate,
             .value = 0x11223344},
            "bye");
    Request({.kind = PacketKind::kSend,
             .flags = kWhole | kPacketImmediate,
             .value = 0x01020304},
            "with immediate data");
    Request({.kind = PacketKind::kSend,
             .flags = kEvent | kPacketImmediate,
             .value = 0x01020304},
            "with immediate data");
    Request({.kind = PacketKind::kSend, .flags = kWhole}, Pattern(16384));
    Request({.kind = PacketKind::kWrite,
             .flags = kWhole,
             .rkey = 0x55,
             .value = 5,
             .address = 0x1000},
            "write");
  }

  void ReadAndAnswer() {
    const uint32_t first = number_;
    Request({.kind = PacketKind::kRead,
             .flags = kWhole,
             .rkey = 0x66,
             .value = 3000,
             .address = 0x2000});
    for (const PacketKind kind :
         {PacketKind::kFetchAdd, PacketKind::kCompareSwap}) {
      Request({.kind = kind, .flags = kWhole, .rkey = 0x66, .address = 0x2000},
              Pattern(16));
    }
    Answer(first, Pattern(3000));
    Answer(first + 1, Pattern(8));
    Answer(first + 2, Pattern(8));
  }

  void CountAndRefuse() {
    Request({.kind = PacketKind::kCount, .flags = kWhole});
    far_.Execute(number_);
    Pass(capture_, 1, far_, near_);
    far_.Put({.kind = PacketKind::kNak,
              .flags = kWhole,
              .number = number_,
              .value = static_cast<uint32_t>(NakReason::kRemoteAccess)});
    Pass(capture_, 1, far_, near_);
  }

 private:
  void Request(Packet packet, const std::string& payload = "") {
    packet.number = number_++;
    CHECK(near_.Put(packet, payload));
    Pass(capture_, 0, near_, far_);
  }

  void Answer(uint32_t number, const std::string& payload) {
    far_.Put(
        {.kind = PacketKind::kReadResponse, .flags = kWhole, .number = number},
        payload);
    Pass(capture_, 1, far_, near_);
  }

  Capture capture_;
  TestStream near_ = TestStream({.crc = true, .extended = true});
  TestStream far_ = TestStream({.crc = true, .extended = true});
  uint32_t number_ = 0;
};

// All that tshark prints about the capture. Payloads are not looked at: some
// would be taken for those of NFS.
std::string Dissected(const std::string& path) {
  const std::string command =
      "tshark -V -n --disable-protocol rpcordma -r " + path + " 2>&1";
  std::FILE* const output = ::popen(command.c_str(), "r");
  CHECK(output != nullptr);
  std::string text;
  char part[4096];
  while (std::fgets(part, sizeof(part), output) != nullptr) text += part;
  EXPECT_EQ(::pclose(output), 0) << text;
  return text;
}

TEST(DissectorTest, WiresharkNamesEachMessageAndFindsNothingWrong) {
  const std::string path = testing::TempDir() + "/iwarp.pcap";
  {
    Conversation conversation(path);
    conversation.SendMessages();
    conversation.ReadAndAnswer();
    conversation.CountAndRefuse();
  }
  const std::string text = Dissected(path);
  for (const char* const name :
       {"Request frame header", "Reply frame header", "OpCode: Send (0x3)",
        "OpCode: Send with SE (0x5)", "OpCode: Send with Invalidate (0x4)",
        "OpCode: Send with SE and Invalidate (0x6)", "OpCode: Write (0x0)",
        "OpCode: Read Request (0x1)", "OpCode: Read Response (0x2)",
        "OpCode: Atomic Request (0xa)", "OpCode: FetchAdd (0)",
        "OpCode: CmpSwap (2)", "OpCode: Atomic Response (0xb)",
        "OpCode: Terminate (0x7)", "Base or bounds violation (0x01)",
        // Wireshark 4.0 has no names for immediate data, and nobody for ours.
        "(0x8)", "(0x9)", "(0xf)"}) {
    EXPECT_TRUE(absl::StrContains(text, name)) << name << "\n" << text;
  }
  EXPECT_TRUE(absl::StrContains(text, "Good CRC32"));
  EXPECT_FALSE(absl::StrContains(text, "Bad CRC32"));
  EXPECT_FALSE(absl::StrContains(text, "Malformed"));
}

}  // namespace
}  // namespace verbena::soft
