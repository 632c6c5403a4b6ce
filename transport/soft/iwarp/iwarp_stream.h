// Carries a link over a TCP connection, as iWARP.

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_IWARP_STREAM_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_IWARP_STREAM_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/iwarp/ddp.h"
#include "transport/soft/iwarp/fixed_queue.h"
#include "transport/soft/iwarp/stream_message.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {

// Plays the peer to a queue pair at one end of its link, and speaks iWARP with
// the real peer, from behind the MPA frames (mpa.h) to the end. Packets that
// the queue pair has put into its ring become RDMAP messages on the socket, and
// the peer's messages become packets.
//
//   packets                           on the wire
//   kSend                             Send; Immediate Data behind it
//   kWrite                            RDMA Write; Immediate Data behind it
//   kRead, kReadResponse              Read Request, Read Response
//   kCompareSwap, kFetchAdd           Atomic Request, Atomic Response
//   kNak                              kNak, and a Terminate if it is for good
//   kCount                            kCount
//   requests executed                 kAck
//   a number that is not the next     kResume
//
// The last four are StreamMessages, which only two of this device exchange; the
// terms call that extended. The wire has no numbers of requests: both sides
// count, from 0, and agree again after a kResume.
//
// A peer that is not extended acknowledges nothing. A request counts as
// executed when the kernel has all its bytes; the data of a READ is waited for
// all the same. Such a peer is told of a NAK only by a Terminate. A SEND with
// immediate data cannot be said to it.
//
// Bytes of the peer are checked before any are published. Nothing from the peer
// sizes memory. A Read Response is accepted only for the oldest READ under way,
// only where its data goes on, and only as long as it is.
//
// Not thread-safe. Send() and Receive() neither block nor allocate. The link
// must be attached, outlive the stream, and be written by nobody else.
class IwarpStream {
 public:
  struct Terms {
    bool crc = true;        // Agreed on by the MPA frames.
    bool extended = false;  // The peer is this device.
  };

  IwarpStream(LinkEnd& link, const Terms& terms);
  IwarpStream(const IwarpStream&) = delete;
  IwarpStream& operator=(const IwarpStream&) = delete;

  // Moves packets from the ring to the socket. Returns whether anything moved.
  // Neither this nor Receive() rings for the queue pair.
  bool Send(int socket);
  // Moves messages from the socket to the ring, reading from the socket at most
  // once. Returns whether anything moved.
  bool Receive(int socket);

  // Whether a message of the peer, or a part of one, has been taken.
  bool heard() const { return heard_; }
  // Whether the peer has closed the stream or said Terminate, or the connection
  // is lost: end_errno() says why, or is 0. Messages that came before may still
  // wait for room; see no_room().
  bool ended() const { return ended_; }
  int end_errno() const { return end_errno_; }
  // Whether a correct peer, or a correct queue pair, cannot have said what
  // came.
  bool broken() const { return broken_; }
  // Says in words what was wrong, or what the Terminate said.
  absl::string_view error() const { return error_.data(); }

  // Whether bytes wait for room in the socket.
  bool has_unsent() const { return pieces_sent_ != pieces_count_; }
  // Whether something that was received waits: for room in the ring, for the
  // queue pair to answer READs, or for TakeMessage(). Nothing is read from the
  // socket meanwhile.
  bool no_room() const { return waiting_; }

  // Sends a kState or kCm message, behind all that is in the ring now. Returns
  // false if too many wait already. REQUIRES: the peer is extended.
  bool Say(const StreamMessage& message);
  // Takes the next such message of the peer, if there is one. The user takes
  // all after each Receive(), because packets behind them are not published
  // before.
  bool TakeMessage(StreamMessage& message);

  // Whether Send() acknowledges at once what the peer waits for, as it does
  // from the beginning: for a user who sleeps, and calls again only when there
  // is something new. Otherwise acknowledgements wait for other bytes to go.
  void SetHurried(bool hurried) { hurried_ = hurried; }
  // Whether the peer waits for an acknowledgement, which a later Send() sends.
  bool owes_acknowledgement() const {
    return terms_.extended &&
           static_cast<int32_t>(awaited_ - executed_told_) > 0;
  }

 private:
  static constexpr uint32_t kBatchPackets = 64;
  static constexpr uint32_t kBatchBytes = 64 * 1024;
  // Payloads of less are copied behind their header; others are sent from the
  // ring, and received into it.
  static constexpr uint32_t kCopyBytes = 2048;
  // Bytes of a packet on the wire beside its payload, with what a kResume and
  // immediate data take.
  static constexpr size_t kOverheadBytesMax = 128;
  static constexpr size_t kMessagesMax = 4;
  static constexpr size_t kSendBufferBytes =
      kBatchBytes + kCopyBytes + kBatchPackets * kOverheadBytesMax +
      (kMessagesMax + 1) * (StreamMessage::kBytesMax + 32);
  static constexpr size_t kReceiveBufferBytes = size_t{128} * 1024;
  static_assert(kReceiveBufferBytes >= kFpduBytesMax + size_t{32} * 1024);

  // Requests executed that are acknowledged without waiting for other bytes to
  // go along, and calls of Send() after which fewer are.
  static constexpr uint32_t kAckCount = 16;
  static constexpr uint32_t kAckPatience = 64;

  // The fate of a message, or of a part of it.
  enum class Taken { kYes, kIncomplete, kNoRoom, kBroken };

  // A packet of the batch, as far as it has to be consumed later.
  struct BatchPacket {
    uint32_t end;  // The end of its bytes in the batch.
    uint32_t payload_bytes;
    uint32_t counted;  // Requests of the queue pair up to here.
  };
  // A request that is being sent or received, or the next if it is not open.
  struct Message {
    bool open = false;
    PacketKind kind = PacketKind::kNone;
    bool immediate = false;  // Immediate data is announced.
    bool ended = false;      // Only its immediate data is still to come.
    uint32_t number = 0;
    uint32_t offset = 0;
    // kSend to a plain peer only; see SettleOpcode().
    RdmapOpcode opcode = RdmapOpcode::kSend;
    bool invalidate = false;
    // kWrite only.
    uint32_t rkey = 0;
    uint32_t length = 0;
    uint64_t address = 0;
  };
  // A READ or an atomic that waits for its answer.
  struct Read {
    uint32_t number = 0;
    uint32_t name = 0;  // The sink STag, or the request identifier.
    uint32_t length = 0;
    uint32_t offset = 0;  // Bytes of the answer sent or received.
    uint64_t sink_offset = 0;
    bool atomic = false;
  };
  using Reads = FixedQueue<Read, kReadsMax>;
  // An FPDU whose payload is received into the ring.
  struct Direct {
    std::byte* to = nullptr;  // Null: there is none.
    uint32_t received = 0;
    uint32_t crc = 0;  // The CRC of its header.
    DdpSegment segment;
  };

  [[gnu::format(printf, 2, 3)]] Taken Break(const char* format, ...);
  void NoteExecuted(uint32_t executed);
  bool ReadProgress();
  static void Forget(Reads& reads, uint32_t from);

  // Sending (iwarp_stream_send_datapath.cc).
  void Gather();
  bool SendBatch(int socket);
  void ConsumeSent();
  void Append(const DdpSegment& segment, const std::byte* payload);
  void AppendOwn(size_t bytes);
  void AppendUntagged(DdpSegment& segment, const std::byte* payload);
  void AppendMessage(const StreamMessage& message);
  void AppendPacket(const Packet& packet);
  void AppendSend(const Packet& packet);
  bool SettleOpcode(const Packet& packet, DdpSegment& segment);
  void AppendWrite(const Packet& packet);
  void AppendImmediate(const Packet& packet);
  void AppendRead(const Packet& packet);
  void AppendAtomic(const Packet& packet);
  void AppendCount(const Packet& packet);
  void AppendAnswer(const Packet& packet);
  void AppendNak(const Packet& packet);
  void AppendAck();
  bool Goes(const Packet& packet);
  void CloseSent();
  std::byte* send_tail() { return send_buffer_.get() + send_used_; }

  // Receiving (iwarp_stream_receive_datapath.cc).
  bool ReadSocket(int socket);
  bool TakeAll();
  Taken TakeBuffered();
  Taken TakeDirect();
  void StartDirect(const DdpSegment& segment);
  void Done(const DdpSegment& segment, size_t bytes);
  bool CrcIsRight(uint32_t crc, const std::byte* stated) const;

  // The meaning of messages (iwarp_stream_take_datapath.cc).
  Taken TakeSegment(const DdpSegment& segment, const std::byte* payload);
  Taken TakeData(const DdpSegment& segment, const std::byte* payload);
  Taken TakeSend(const DdpSegment& segment, const std::byte* payload);
  Taken TakeWrite(const DdpSegment& segment, uint32_t length,
                  const std::byte* payload);
  Taken TakeReadResponse(const DdpSegment& segment, const std::byte* payload);
  Taken TakeImmediate(const DdpSegment& segment, const std::byte* payload);
  Taken HoldRequest();
  Taken TakeReadRequest(const std::byte* payload);
  Taken TakeAtomicRequest(const std::byte* payload);
  Taken TakeAtomicResponse(const std::byte* payload);
  Taken TakeTerminate(const std::byte* payload);
  Taken TakeExtended(const DdpSegment& segment, const std::byte* payload);
  Taken TakeForUser(const StreamMessage& message);
  Taken TakeResume(uint32_t number);
  Taken Put(const Packet& packet, const std::byte* payload);
  Taken PutCounted(const Packet& packet);
  void CloseReceived(uint8_t flags);

  LinkEnd& link_;
  const Terms terms_;

  bool ended_ = false;
  bool stopped_ = false;  // By a Terminate of the peer.
  bool broken_ = false;
  int end_errno_ = 0;
  std::array<char, 160> error_ = {};

  // Outgoing. The batch: pieces of memory, of which some have been sent, and
  // the packets that they came from.
  const std::unique_ptr<std::byte[]> send_buffer_;
  size_t send_used_ = 0;
  std::array<iovec, 2 * kBatchPackets + 4> pieces_;
  uint32_t pieces_count_ = 0;
  uint32_t pieces_sent_ = 0;
  uint32_t batch_bytes_ = 0;
  uint32_t batch_sent_ = 0;
  std::array<BatchPacket, kBatchPackets> batch_;
  uint32_t batch_count_ = 0;
  uint32_t batch_consumed_ = 0;
  bool lost_ = false;        // The socket takes no more.
  bool terminated_ = false;  // We have said Terminate to a plain peer.
  Message out_;
  std::array<uint32_t, kUntaggedQueues> out_sequence_;
  Reads reads_;            // Ours, under way.
  uint32_t sinks_ = 0;     // READs and atomics sent so far, which names them.
  uint32_t executed_ = 0;  // Requests of the peer.
  uint32_t executed_told_ = 0;
  uint32_t idle_calls_ = 0;
  // The peer's user waits to hear that the requests before this number were
  // executed.
  uint32_t awaited_ = 0;
  bool hurried_ = true;
  FixedQueue<StreamMessage, kMessagesMax> said_;

  // Incoming.
  const std::unique_ptr<std::byte[]> receive_buffer_;
  size_t receive_begin_ = 0;
  size_t receive_end_ = 0;
  bool waiting_ = false;
  bool heard_ = false;
  bool checked_ = false;  // The CRC of the FPDU at hand is right.
  uint32_t cut_ = 0;      // Bytes of it that were published.
  Direct direct_;
  bool large_ = false;  // The last FPDU was: see ReadSocket().
  Message in_;
  std::array<uint32_t, kUntaggedQueues> in_sequence_;
  Reads asked_;  // The peer's, to be answered by our queue pair.
  FixedQueue<StreamMessage, kMessagesMax> messages_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_IWARP_STREAM_H_
