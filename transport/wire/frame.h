// The bytes between two peers once they are connected. This file is the
// protocol.
//
// Every SEND carries one frame: a header, whose first 16 bytes are the same for
// all types, and a body right behind it. Numbers are little-endian; fields that
// are not used are zero. Both sides use SEND, the server uses RDMA READ and
// RDMA WRITE on arenas of the client as well; nobody ever gets a key of the
// server's memory.
//
// A connection's life. The client connects with the private data of hello.h,
// the server accepts with its own. The client sends HELLO, the server answers
// WELCOME, and calls may begin. It ends with GOAWAY and a disconnect, or with
// BYE and a reason when the other side broke the protocol, or is not believed
// to be who it should be (kFlagUnauthenticated).
//
// Credentials. A client that has some says so in its HELLO. If the server wants
// to know more, it answers with CREDENTIALS, and the client with CREDENTIALS,
// as often as it takes; then comes the WELCOME, with the server's own
// credentials. Before that the server takes no calls. A server that wants
// credentials, and a client that has some, refuse a peer that has none, or
// others.
//
// GOAWAY. With it the server asks for no new calls; open ones go on. The client
// answers with its own GOAWAY, after which it sends no REQUEST: so the server,
// which serves those that crossed its GOAWAY, knows when there are no more, and
// disconnects then and not before. If the answer does not come for long, the
// server answers REQUESTs with kFlagUnprocessed from then on, and disconnects
// when no call is open. A client may send GOAWAY without being asked to.
//
// A call. The client sends REQUEST. Its metadata are in the body, unless they
// are long: see "Metadata". Its message is in the body too if the frame then
// fits a slot, and so is its attachment, bytes beside the message, if the frame
// fits a slot with it; each that is not is in a range of an arena, which the
// server READs. The server answers with
// exactly one RESPONSE, whatever happens to the call. By the same rule message
// and attachment of the reply are in its body, or the server WRITEs them to the
// range that the request lent for them (the reply lease) before it SENDs the
// RESPONSE: the message to its start, the attachment to its start if the
// message is not there, else behind it at the next multiple of 64 from the
// start. Without a lease that is long enough the server sends RESPONSE_PENDING,
// and waits for a LEASE, or a CANCEL; but not for ever, nor beyond the call's
// deadline: then the RESPONSE is an error. A LEASE that crosses it is ignored.
//
// Metadata. Up to kFrameMetadataBytes those of a request stand in its REQUEST,
// and those at the end of a call (trailing) in its RESPONSE. Longer ones go in
// METADATA before it, under the id of the call, cut anywhere, the last of them
// with kFlagMetadataEnd; then there are none in the REQUEST or RESPONSE. Other
// frames, also of that call, may come between. The METADATA of a request go to
// a free slot; when others come there with another generation, those that were
// before are dropped: the client has given that call up. The initial metadata
// of a server, if it sends any, go in METADATA with kFlagInitialMetadata before
// its first DATA, and may be empty. No side sends more metadata of one kind
// than the other has said that it takes. A RESPONSE does not go with trailing
// ones that did not end: the server thought better of it.
//
// A REQUEST or RESPONSE whose body is somewhat longer than fits a slot may also
// be continued: its frame carries the beginning of the body, and CONTINUATIONs
// of the same call the rest. No other frame that needs a credit comes between
// them, and together they are as one frame with all of the body, which is at
// most kContinuedBytesMax long.
//
// Trains. If HELLO and WELCOME agree on it, REQUESTs and RESPONSEs that are
// ready at the same time may travel in one SEND, a train: whole frames, none of
// them continued, one behind the other, each on the next multiple of 8 from the
// start with zeros before it. The first header speaks for the train: it says
// what there is to say of credits, and takes the one credit of the SEND. The
// others have no limit and no flow flags. A train has at most kTrainFrames and
// is no longer than a frame may be. Frames are handled in their order, as if
// each had come alone. With checksums there are no trains.
//
// Streams. A REQUEST with kFlagStream begins a call whose messages all go in
// DATA, any number of them either way; REQUEST and RESPONSE have none then. The
// bodies of one side's DATA, one behind the other, are its messages: before
// each a MessageHeader, behind it its attachment. Where a DATA ends says
// nothing: it may hold many messages, or a part of one. The last DATA of the
// client has kFlagLastData, and may be empty. The RESPONSE comes behind the
// last DATA of the server, and ends the call for both sides: what the client
// has still sent then is dropped.
//
// A side may send kStreamWindowBytes of a stream's bodies, and more as the
// other allows it by WINDOW: a running total, which never goes back. That
// counts bytes, not messages, because what is kept for a reader who does not
// read is bytes: an empty message takes a MessageHeader. A message that is
// longer than the window goes on when somebody waits to read it. So a reader
// who stops reading stops its own stream and nothing else.
//
// A long message of a stream may go beside its DATA. A MESSAGE stands in their
// place, between two whole messages; it says where message and attachment are,
// of which at least one is in an arena, and the other in its body if there is
// one. What a client names so the server READs, when the stream has room for
// it; the memory stays reserved until as many WINDOWs have come as say that the
// message was read, or until the RESPONSE. A client may send
// kStreamLongMessages in all, and more as the WINDOWs allow. A server WRITEs
// into a lease, of those that the client has lent to the stream with LEASE,
// kStreamLongMessages at a time, and which ends with the MESSAGE: the parts
// stand in it as those of a RESPONSE. A LEASE of no bytes says that the client
// has none to lend at present, so that the server does not wait for one; a
// LEASE of the server gives one back that is too short. With checksums all of a
// stream goes in DATA, and no LEASE of a stream has a key.
//
// Memory that a request names stays reserved at the client until the RESPONSE,
// or until the queue pair is flushed; the memory of the request itself only
// until the RESPONSE_PENDING, if there is one. A CANCEL does not change that:
// the RESPONSE is still owed.
//
// Leases with a key. A client may lend a reply lease under a key of its own, of
// a memory window of type 2, instead of that of the arena. The server WRITEs
// with that key, and sends the next frame that ends the reservation, RESPONSE
// or RESPONSE_PENDING, as a SEND with invalidate of it, be the lease used or
// not; of one that is continued, the first SEND. So when the client reads the
// frame, its device lets nobody write to the lease any more.
//
// Arenas. The client offers the first one in its private data, for as long as
// the connection lasts, and others with ARENA. An ARENA of no bytes withdraws
// one, which then has no memory that is reserved as above. So the server has
// nothing under way there: its READs had ended, and its WRITEs had been
// executed, before it sent the frame that ended the reservation, and later ones
// must name memory that was offered since. The client lets go of the memory as
// soon as it has posted the frame, and may offer the index again. If it
// withdraws what is reserved, its own device refuses what the server does
// there, and the connection is lost.
//
// Checksums. If a side asks for them in its HELLO or WELCOME, every frame of
// the client after it has read the WELCOME, and every frame of the server
// behind the WELCOME, ends with FrameSums, of which its header says nothing.
// `frame` is of all that stands before it in that SEND, whatever the header
// claims, so it is looked at first; the others are of the parts in an arena,
// and are looked at when those have been READ or WRITTEN. Of a frame that is
// continued they stand in its last CONTINUATION. Who finds other bytes than
// were meant uses none of them and ends the connection with BYE and
// kFlagDamaged.
//
// Seals. Where the credentials have agreed on keys (credentials.h in base),
// each side seals all SENDs behind a certain one of its CREDENTIALS: those of
// the server from the last frame on that it needs to agree, those of the client
// likewise. Each SEND, a train as a whole, has a FirstChunk behind it, is
// encrypted, and ends with a tag. SENDs are numbered from 0, without a word of
// that on the wire; a frame that was altered, dropped or repeated does not
// open. The parts that a frame has in an arena are sealed in chunks of
// kSealChunkBytes, which are numbered from 1 in each direction: the FirstChunk
// of the frame is the number of its message's first chunk, and those of its
// attachment follow. A part of a request stands behind its tags, at the
// next multiple of 64 from where they begin. A part of a reply stands before
// its tags, and what is said of the places of parts in a lease is
// about their length with the tags. Lengths in headers are without. All of a
// stream goes in DATA, as with checksums, and there are no checksums. Who finds
// something that does not open ends the connection with BYE and kFlagDamaged.
//
// Credits. A credit is the right to send one frame; behind it stands a receive
// that is posted. Each side says in every header how many frames the other may
// have sent since the connection began (a running total modulo 2^32, so a
// repeated number does no harm). It never goes back, and never allows more than
// kCredits frames at once.
//
// Only GRANT needs no credit: it is sent when half of what the other may send,
// or all of it, is owed and nothing else goes that way. It has one receive of
// its own, so at most one may be unread: kFlagGrantRead in every header is the
// number of GRANTs that its sender has read, modulo 2, and no second GRANT is
// sent before that bit has changed. Whoever has no credits is never forgotten
// for that: the limit in an unacknowledged GRANT was news, so the last frames
// that it allows were sent after it was read, and acknowledge it. A GRANT out
// of turn, or without news, is an error. A BYE with kFlagDamaged needs no
// credit either, for those that were granted last may have stood in the very
// frame that was damaged. It is the last frame of its side, so it takes one
// receive that was not promised to it; if there is none, the other side is told
// nothing.
//
// Both sides begin with the few credits of the private data. A frame that had
// to wait for a credit says so (kFlagCreditsWanted), and the side that reads it
// may grant more at once from then on: twice as many, up to kCredits, as long
// as it has receives to post. A side that has not used credits beyond the first
// few for a second gives them back with RETURN, which counts as one frame and
// as many more as it gives back; the other then owes so many fewer. So receives
// are where the traffic is, and an idle connection needs two.

#ifndef VERBENA_TRANSPORT_WIRE_FRAME_H_
#define VERBENA_TRANSPORT_WIRE_FRAME_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/base/limits.h"
#include "transport/base/seal.h"

namespace verbena::transport {

static_assert(std::endian::native == std::endian::little,
              "frames are copied as they stand in memory");

enum class FrameType : uint8_t {
  kHello = 1,            // Client. Body: options (hello.h).
  kWelcome = 2,          // Server. Body: options.
  kRequest = 3,          // Client.
  kResponse = 4,         // Server.
  kResponsePending = 5,  // Server.
  kLease = 6,            // Answers kResponsePending; or see "Streams".
  kCancel = 7,           // Client: the RESPONSE may come early. Header only.
  kArena = 8,            // Client: offers an arena, or withdraws it.
  kGrant = 9,            // Header only, for its credit_limit. Uncredited.
  kPing = 10,            // Header only; answered by kPong.
  kPong = 11,            // Header only.
  kGoAway = 12,          // Header only.
  kBye = 13,     // Body: why the sender is about to disconnect, as text. Not
                 // sent without a credit, unless it has kFlagDamaged.
  kReturn = 14,  // Gives credits back.
  kContinuation = 15,  // Body: the next bytes of a frame that is continued.
  kCredentials = 16,   // Body: what credentials say (credentials.h in base).
  kData = 17,          // Body: the next bytes of a stream's messages.
  kWindow = 18,        // How much of a stream the receiver may send.
  kMetadata = 19,      // Body: the next bytes of a call's metadata.
  kMessage = 20,       // A long message of a stream: see "Streams".
};
inline constexpr uint8_t kFirstFrameType = 1;
inline constexpr uint8_t kLastFrameType = 20;

// In kRequest, kResponse and kMessage: where the parts of the message are.
inline constexpr uint8_t kFlagMessageInArena = 1;
inline constexpr uint8_t kFlagAttachmentInArena = 2;
// In kRequest: reply_offset, reply_bytes and reply_arena name a lease.
inline constexpr uint8_t kFlagReplyLease = 4;
// In kRequest and kResponse: the body is longer than the frame; the rest of it
// follows in CONTINUATIONs.
inline constexpr uint8_t kFlagContinued = 8;
// In kRequest, beside kFlagReplyLease: the body begins with a LeaseKey.
inline constexpr uint8_t kFlagLeaseKey = 32;
// In kResponse, with the code UNAVAILABLE and nothing but a status message: the
// server has done nothing about the call, which may be made elsewhere.
inline constexpr uint8_t kFlagUnprocessed = 16;
// In kRequest, where that bit is free: see "Streams".
inline constexpr uint8_t kFlagStream = 16;
// In kData of a client: it is the last one.
inline constexpr uint8_t kFlagLastData = 1;
// In kMetadata: there are no more of these. Without it the body is not empty.
inline constexpr uint8_t kFlagMetadataEnd = 1;
// In kMetadata of a server: they are initial ones. Else they are trailing.
inline constexpr uint8_t kFlagInitialMetadata = 2;
// In kBye, where that bit is free: the sender does not believe that the
// receiver is who it should be.
inline constexpr uint8_t kFlagUnauthenticated = 16;
// In kBye, where that bit is free: the sender found bytes that were damaged.
inline constexpr uint8_t kFlagDamaged = 4;
// In all types: see "Credits".
inline constexpr uint8_t kFlagCreditsWanted = 0x40;
inline constexpr uint8_t kFlagGrantRead = 0x80;
inline constexpr uint8_t kFlowFlags = kFlagCreditsWanted | kFlagGrantRead;

// Whether a frame with these flags takes a credit: see "Credits".
constexpr bool NeedsCredit(FrameType type, uint8_t flags) {
  if (type < FrameType::kGrant) return true;  // As most are.
  if (type == FrameType::kBye) return (flags & kFlagDamaged) == 0;
  return type != FrameType::kGrant;
}

struct FrameHeader {
  FrameType type;
  uint8_t flags;
  uint16_t header_bytes;  // Bytes of this type's header; the body follows.
  uint32_t credit_limit;  // Credited frames the receiver of this may have sent.
  uint32_t call_id;  // The client's choice: slot in the low half, generation in
                     // the high half. Zero where no call is meant.
  uint32_t body_bytes;
};
static_assert(sizeof(FrameHeader) == 16);

struct RequestHeader {
  FrameHeader frame;
  uint64_t method_id;
  uint64_t timeout_us;  // Time that remains; kNoTimeout if for ever.
  uint32_t message_bytes;
  uint32_t message_offset;  // In its arena, if kFlagMessageInArena.
  uint32_t attachment_bytes;
  uint32_t attachment_offset;
  uint32_t reply_offset;
  uint32_t reply_bytes;
  uint16_t metadata_bytes;  // The body is a LeaseKey if there is one, then
                            // metadata, message and attachment: those of them
                            // that are not in an arena.
  uint16_t message_arena;
  uint16_t attachment_arena;
  uint16_t reply_arena;
};
static_assert(sizeof(RequestHeader) == 64);
inline constexpr uint64_t kNoTimeout = UINT64_MAX;

struct LeaseKey {
  uint32_t rkey;  // Not zero.
  uint32_t zero;
};
static_assert(sizeof(LeaseKey) == 8);

struct ResponseHeader {
  FrameHeader frame;
  uint32_t code;  // An absl::StatusCode.
  uint16_t status_message_bytes;
  uint16_t metadata_bytes;    // The body is status message, metadata, message,
  uint32_t message_bytes;     // attachment: those of the last two that are not
  uint32_t attachment_bytes;  // in the reply lease.
};
static_assert(sizeof(ResponseHeader) == 32);

// Replies up to this length, metadata included, come back in the RESPONSE
// itself.
inline constexpr size_t kFrameReplyBytes =
    kBufferBytes - sizeof(ResponseHeader);

struct ResponsePendingHeader {
  FrameHeader frame;
  uint32_t message_bytes;     // Those that the lease must hold; 0 for what
  uint32_t attachment_bytes;  // will be in the body of the RESPONSE.
};
static_assert(sizeof(ResponsePendingHeader) == 24);

struct LeaseHeader {
  FrameHeader frame;
  uint32_t offset;
  uint32_t bytes;
  uint16_t arena;
  uint16_t zero;
  uint32_t rkey;  // The lease's own key; 0: that of the arena.
};
static_assert(sizeof(LeaseHeader) == 32);

struct ArenaHeader {
  FrameHeader frame;
  uint64_t address;
  uint64_t bytes;  // 0: withdraws the arena; address and rkey are 0 too.
  uint32_t rkey;
  uint16_t
      index;  // Below kMaxArenas, of none that is offered; 0 is in hello.h.
  uint16_t zero;
};
static_assert(sizeof(ArenaHeader) == 40);

struct WindowHeader {
  FrameHeader frame;
  uint64_t limit;  // Bytes of the stream that may be sent in all.
  // MESSAGEs that the client may send in all; 0 in those of a client.
  uint64_t message_limit;
};
static_assert(sizeof(WindowHeader) == 32);

struct LongMessageHeader {  // For a kMessage.
  FrameHeader frame;
  uint32_t message_bytes;
  uint32_t message_offset;  // In its arena, if kFlagMessageInArena.
  uint32_t attachment_bytes;
  uint32_t attachment_offset;
  uint16_t message_arena;
  uint16_t attachment_arena;
  uint32_t zero;
};
static_assert(sizeof(LongMessageHeader) == 40);

// The most frames of a train. So many calls, not more, wait for the first one's
// doorbell.
inline constexpr uint32_t kTrainFrames = 8;
inline constexpr uint32_t kTrainAlignment = 8;

// Before every message of a stream, on no boundary.
struct MessageHeader {
  uint32_t message_bytes;
  uint32_t attachment_bytes;
};
static_assert(sizeof(MessageHeader) == 8);

struct ReturnHeader {
  FrameHeader frame;
  uint32_t credits;  // Beside the one for this frame; at least 1.
  uint32_t zero;
};
static_assert(sizeof(ReturnHeader) == 24);

// The CRC32C of what a REQUEST or RESPONSE has in an arena or in the reply
// lease; 0 for what it has not there.
struct PartSums {
  uint32_t message = 0;
  uint32_t attachment = 0;
};

// The end of each frame, if checksums were agreed on: see "Checksums".
struct FrameSums {
  PartSums parts;
  uint32_t frame;
};
static_assert(sizeof(FrameSums) == 12);

// Behind each SEND of a connection that is sealed, before its tag: the number
// of the first chunk of its parts; 0 if it has none. See "Seals".
using FirstChunk = uint64_t;
inline constexpr uint32_t kSealedFrameBytes =
    sizeof(FirstChunk) + kSealTagBytes;

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_FRAME_H_
