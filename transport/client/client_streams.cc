#include "transport/client/client_streams.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"

namespace verbena::transport {
namespace {

// The lease that the parts of a MESSAGE lie in. The first part that is not in
// the body stands at its start.
struct LeasePlace {
  uint16_t arena;
  uint32_t offset;
  uint64_t bytes;
};

LeasePlace LeaseOf(const LongMessageHeader& header) {
  const uint32_t attachment_bytes =
      (header.frame.flags & kFlagAttachmentInArena) != 0
          ? header.attachment_bytes
          : 0;
  if ((header.frame.flags & kFlagMessageInArena) == 0) {
    return {header.attachment_arena, header.attachment_offset,
            attachment_bytes};
  }
  return {header.message_arena, header.message_offset,
          LeaseBytes(header.message_bytes, attachment_bytes)};
}

// The part of a lease that begins there.
Buffer PartOf(const Buffer& lease, uint64_t offset, uint64_t bytes) {
  Buffer part = lease.Share();
  part.Narrow(offset, bytes);
  return part;
}

}  // namespace

StreamMemory& ClientStreams::MemoryOf(uint32_t call_id) {
  std::unique_ptr<StreamMemory>& memory =
      shared_.slots.at(ClientCallSlots::IndexOf(call_id)).memory.stream;
  if (memory == nullptr) memory = std::make_unique<StreamMemory>();
  return *memory;
}

void ClientStreams::Tick() {
  if (!std::exchange(message_came_, false) && expected_bytes_ > 0) {
    StopExpecting();
  }
}

// Names the message in a MESSAGE if each part fits the frame or lies in an
// arena. Tells the server of new arenas first, and keeps the Buffers until a
// WINDOW says that the message was read.
LongMessageCarrier::Outcome ClientStreams::SendLong(uint32_t call_id,
                                                    LongMessage* message) {
  if (connection_.keeps_streams_in_frames()) return Outcome::kInFrames;
  const BufferPool& pool = shared_.arenas.pool();
  const uint64_t room = connection_.SendRoom() - sizeof(LongMessageHeader);
  const Placement place =
      PlaceParts(room, message->message.size(), message->attachment.size());
  if ((!place.message_inline && !pool.Owns(message->message)) ||
      (!place.attachment_inline && !pool.Owns(message->attachment)) ||
      place.all_inline()) {
    return Outcome::kInFrames;
  }
  StreamMemory& memory = MemoryOf(call_id);
  // A WINDOW of the server raises the limit and has the stream served.
  if (memory.sent_count == memory.sent_limit) return Outcome::kWait;
  const bool announced = shared_.arenas.Announce(connection_);
  if (!connection_.usable()) return Outcome::kSent;  // As if it were.
  if (!announced) return Outcome::kBlocked;
  const auto place_of = [](const Buffer& part) {
    return part.empty() ? ArenaPlace()
                        : ArenaPlace{part.region(), part.offset()};
  };
  if (!SendMessageFrame(connection_, call_id, *message, place,
                        place_of(message->message),
                        place_of(message->attachment))) {
    return Outcome::kBlocked;
  }
  memory.sent.push_back(std::move(*message));
  ++memory.sent_count;
  return Outcome::kSent;
}

// Takes the limit as a running total: it grows by one for each message that was
// read, and they are read in order.
const char* ClientStreams::ReleaseSent(ClientCallSlot* slot,
                                       uint64_t message_limit) {
  StreamMemory* const memory = slot->memory.stream.get();
  const uint64_t before =
      memory == nullptr ? kStreamLongMessages : memory->sent_limit;
  if (message_limit == before) return nullptr;
  if (memory == nullptr || message_limit < before ||
      message_limit - before > memory->sent.size()) {
    return "it allowed more MESSAGEs of a stream than it can have read, or "
           "fewer than before";
  }
  memory->sent_limit = message_limit;
  // The server has READ these, so their memory may be used again.
  memory->sent.erase(
      memory->sent.begin(),
      memory->sent.begin() + static_cast<ptrdiff_t>(message_limit - before));
  return nullptr;
}

// Lends one more lease unless the stream has kStreamLongMessages. If there is
// no memory, a LEASE of no bytes says so once, and the server sends its
// messages in DATA.
LongMessageCarrier::Outcome ClientStreams::SendLease(uint32_t call_id,
                                                     uint64_t bytes,
                                                     uint64_t unread) {
  // A lease with a window would have to be taken back message by message.
  if (connection_.keeps_streams_in_frames() ||
      shared_.arenas.lends_through_windows()) {
    return Outcome::kWait;
  }
  StreamMemory& memory = MemoryOf(call_id);
  if (memory.leases.size() + unread >= kStreamLongMessages) {
    return Outcome::kWait;
  }
  if (!connection_.CanSend(/*spare_credits=*/0)) return Outcome::kBlocked;
  Buffer lease;
  // Streams leave an eighth of the arenas to calls, which have no other way.
  if (absl::StatusOr<Buffer> spare = shared_.arenas.pool().AllocateSpare(bytes);
      spare.ok()) {
    lease = *std::move(spare);
    lease.Extend();  // Lend all of the block.
  } else if (!memory.lends || !memory.leases.empty()) {
    return Outcome::kWait;
  }
  // The server must know of the arena before a LEASE names it.
  if (!shared_.arenas.Announce(connection_)) return Outcome::kBlocked;
  uint8_t* const out =
      connection_.BeginFrame(sizeof(LeaseHeader), /*spare_credits=*/0);
  if (out == nullptr) return Outcome::kBlocked;
  LeaseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kLease, call_id);
  header.frame.header_bytes = sizeof(header);
  memory.lends = !lease.empty();
  if (memory.lends) {
    header.arena = lease.region();
    header.offset = lease.offset();
    header.bytes = static_cast<uint32_t>(lease.size());
    ExpectWrite(static_cast<int64_t>(lease.size()));
    memory.leases.push_back(std::move(lease));
  }
  std::memcpy(out, &header, sizeof(header));
  connection_.Send(sizeof(header));
  return Outcome::kSent;
}

void ClientStreams::ExpectWrite(int64_t lease_bytes) {
  // The server writes one of a stream's leases at a time.
  // Takes back no more than the poller was told of.
  const int64_t bytes =
      std::max(lease_bytes / int64_t{kStreamLongMessages}, -expected_bytes_);
  expected_bytes_ += bytes;
  connection_.poller().NoteTransfer(bytes);
}

Buffer ClientStreams::TakeLease(ClientCallSlot* slot, uint16_t arena,
                                uint32_t offset) {
  Buffer lease;
  if (slot->memory.stream == nullptr) return lease;
  std::vector<Buffer>& leases = slot->memory.stream->leases;
  const auto found =
      std::find_if(leases.begin(), leases.end(), [&](const Buffer& lent) {
        return lent.region() == arena && lent.offset() == offset;
      });
  if (found == leases.end()) return lease;
  lease = std::move(*found);
  leases.erase(found);
  return lease;
}

// Takes the lease back even if the call was cancelled, because the slot still
// holds it.
void ClientStreams::HandleLease(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<LeaseHeader>(frame);
  ClientCallSlot* const slot = sent_.Find(header.frame);
  if (slot == nullptr) return;
  const Buffer lease = TakeLease(slot, header.arena, header.offset);
  if (lease.empty()) {
    return connection_.ProtocolError(
        "it gave a lease back that the stream did not lend");
  }
  if (slot->call == nullptr) return;
  // The next long message comes in DATA, and its length says how long leases
  // should be.
  slot->call->stream()->ForgetLeases();
  line_.Serve(slot->call->stream());
}

// Checks that the parts lie in one lease of the stream, laid out as those of a
// RESPONSE. The stream gets views that share the lease, which is lent no more.
void ClientStreams::HandleLongMessage(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<LongMessageHeader>(frame);
  ClientCallSlot* const slot = Find(header.frame);
  if (slot == nullptr) return;
  const LeasePlace place = LeaseOf(header);
  const Buffer lease = TakeLease(slot, place.arena, place.offset);
  if (lease.empty() || place.bytes > lease.size()) {
    return connection_.ProtocolError(
        "it sent a MESSAGE in no lease of the stream, or beyond one");
  }
  message_came_ = true;
  ExpectWrite(-static_cast<int64_t>(lease.size()));
  IncomingMessage incoming;
  LongMessage& parts = incoming.parts;
  uint64_t attachment_at = 0;
  if ((header.frame.flags & kFlagMessageInArena) != 0) {
    parts.message = PartOf(lease, 0, header.message_bytes);
    // The server may still write there, so the reader must copy the message
    // before it is parsed.
    incoming.shared = true;
    attachment_at = AlignPart(header.message_bytes);
  }
  const bool attached = header.frame.flags & kFlagAttachmentInArena;
  if (attached) {
    if (header.attachment_arena != place.arena ||
        header.attachment_offset != place.offset + attachment_at) {
      return connection_.ProtocolError(
          "it sent a MESSAGE whose attachment is not behind the message");
    }
    parts.attachment = PartOf(lease, attachment_at, header.attachment_bytes);
  }
  MessageStream* const stream = slot->call->stream();
  const char* const error =
      stream->OnLongMessage({header.message_bytes, header.attachment_bytes},
                            FrameBody(frame), std::move(incoming));
  if (error != nullptr) return connection_.ProtocolError(error);
  // The peer did nothing wrong, but this side cannot go on with the stream.
  if (!stream->failure().ok()) return sent_.Abandon(slot, stream->failure());
  line_.Serve(stream);
}

ClientCallSlot* ClientStreams::Find(const FrameHeader& header) {
  ClientCallSlot* const slot = sent_.Find(header);
  // Nobody waits for what the server still sent of a call that was cancelled.
  if (slot == nullptr || slot->call == nullptr) return nullptr;
  if (slot->call->stream() != nullptr) return slot;
  connection_.ProtocolError(kNoStream);
  return nullptr;
}

void ClientStreams::HandleData(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  ClientCallSlot* const slot = Find(header);
  if (slot == nullptr) return;
  if ((header.flags & kFlagLastData) != 0) {
    return connection_.ProtocolError("it marked DATA as a client's last");
  }
  MessageStream* const stream = slot->call->stream();
  const char* const error =
      stream->OnData(frame.subspan(sizeof(header)), /*last=*/false);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!stream->failure().ok()) return sent_.Abandon(slot, stream->failure());
  if (stream->GrantDue()) line_.Serve(stream);
}

void ClientStreams::HandleWindow(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<WindowHeader>(frame);
  ClientCallSlot* const slot = Find(header.frame);
  if (slot == nullptr) return;
  MessageStream* const stream = slot->call->stream();
  const char* error = stream->OnWindow(header.limit);
  if (error == nullptr) error = ReleaseSent(slot, header.message_limit);
  if (error != nullptr) return connection_.ProtocolError(error);
  // Messages or DATA may have waited for what the WINDOW allows.
  line_.Serve(stream);
}

}  // namespace verbena::transport
