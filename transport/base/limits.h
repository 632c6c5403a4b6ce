// Every limit of the transport, with its cause. Depths are sums of named terms.

#ifndef VERBENA_TRANSPORT_BASE_LIMITS_H_
#define VERBENA_TRANSPORT_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace verbena::transport {

// --- Messages --------------------------------------------------------------

// Bytes of one receive buffer or send buffer: the largest SEND, header
// included. 8 KiB holds the common 4 KiB page with its message around it.
inline constexpr uint32_t kBufferBytes = 8192;

// A frame at most this long is posted inline where the device allows it, so
// that it needs no registered send buffer for the device to read it from later.
inline constexpr uint32_t kInlineBytesWanted = 220;

// Largest message that the transport accepts unless its options say otherwise;
// channels and servers always say, by default a little more (ChannelOptions).
// The wire could carry 4 GiB; this bounds what one call may make a peer
// allocate.
inline constexpr uint64_t kDefaultMaxMessageBytes = uint64_t{64} << 20;

// Largest value that the limit above can be set to: lengths on the wire have 32
// bits, and half of that keeps every sum of two lengths in range.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

// Most bytes of metadata that travel in the REQUEST or RESPONSE itself, which
// must have room for a status message beside them. Longer ones go before it.
inline constexpr uint32_t kFrameMetadataBytes = 2048;

// Most bytes of metadata of one call, each way, that a side takes unless its
// options say otherwise. A signed token, or a ticket, may have some KiB; 8 KiB
// is what gRPC takes, and most HTTP servers of all header fields.
inline constexpr uint32_t kDefaultMaxMetadataBytes = 8192;

// Largest value that this can be set to: the lengths of a pair have 16 bits.
// What is longer belongs into messages, which cost no such memory for a call
// that has hardly begun.
inline constexpr uint32_t kMaxMetadataBytes = UINT16_MAX;

// Longest status message that travels in the RESPONSE itself. Fits every frame
// beside its header and metadata. The transport cuts longer ones; the layer
// above sends the rest of them in the metadata.
inline constexpr uint32_t kMaxStatusMessageBytes = 2048;

// Longest status message that a server's handlers may send unless its options
// say otherwise, and largest value that this can be set to, as for metadata.
inline constexpr uint32_t kDefaultMaxStatusBytes = kDefaultMaxMetadataBytes;
inline constexpr uint32_t kLongestStatusBytes = kMaxMetadataBytes;

// Longest body of a frame that is continued in further SENDs: 64 KiB of payload
// and what stands around it. Every side can take one at a time.
inline constexpr uint32_t kContinuedBytesMax = (64 + 4) * 1024;

// Longest message that is continued in further SENDs by default. Continuing
// saves the round trip of a READ, and costs two copies. On the software device
// the gain, 6 to 12 % of a call of 9 to 12 KiB, is gone at 24 KiB, and with
// many calls outstanding the copies cost more than that from 16 KiB on.
inline constexpr uint32_t kDefaultContinuedBytesMax = 16 * 1024;

// --- Credentials -----------------------------------------------------------

// Most bytes that the credentials of one side say at once. A frame with them
// fits every peer's slot, and what an unknown client can make a server look at
// is small.
inline constexpr uint32_t kMaxCredentialBytes = 2048;

// --- Credits ---------------------------------------------------------------

// Most credits that one side gives the other: frames that the other may send
// before it hears more.
inline constexpr uint32_t kCredits = 64;

// The credits of a new connection, and of one on which nothing happens. One is
// enough for calls one after the other.
inline constexpr uint32_t kIdleCredits = 1;

// Receives for GRANTs, the only frames that need no credit. At most one GRANT
// is unread at any time.
inline constexpr uint32_t kGrantReceives = 1;

// Receives of a connection without traffic, each with a receive buffer.
inline constexpr uint32_t kIdleReceives = kIdleCredits + kGrantReceives;

// Credits that new requests leave alone, so that a CANCEL, a LEASE or an ARENA
// frame finds one: one in kReservedShare of a connection's credits, but at most
// kReservedCredits. A connection with fewer than kReservedShare reserves none:
// its credits come back soon, and such frames only go first.
inline constexpr uint32_t kReservedCredits = 4;
inline constexpr uint32_t kReservedShare = 8;

// Receives that the connections of one poller may have on one device beyond
// what all of them have when idle: 64 MiB, enough for 128 busy connections at
// full speed. When they are spent, further connections do with fewer.
inline constexpr uint32_t kMaxGrownReceives = 8192;

// --- Calls -----------------------------------------------------------------

// Calls that one connection may have open, those in quarantine included, unless
// the options of a side say fewer or more. Bounds what a server keeps for one
// client.
inline constexpr uint32_t kDefaultMaxOpenCalls = 256;

// Largest value that this can be set to. An open call costs a client some
// hundred bytes, and a server some KiB with its messages. A slot without a call
// costs a client the same, and a server a pointer.
inline constexpr uint32_t kMaxOpenCalls = 16384;

// Bytes of a stream's messages that may be sent before the reader says more,
// and so what a reader who does not read makes its side keep. 64 KiB hides a
// round trip on a fast network behind messages of some KiB.
inline constexpr uint64_t kStreamWindowBytes = uint64_t{64} << 10;

// The most that a stream's window grows to, where the reader keeps up and the
// window holds the writer up. One message of a MiB can come while another is
// read. 256 open calls keep 512 MiB at most.
inline constexpr uint64_t kMaxStreamWindowBytes = uint64_t{2} << 20;

// Bytes that a writer may be ahead of the connection: enough to fill several
// frames at once. A long message (see MessageStream) is accepted at any length,
// but only if nothing is before it.
inline constexpr uint64_t kStreamOutboxBytes = uint64_t{64} << 10;

// Long messages of a stream that may be on their way beside its DATA, one way,
// or wait for who reads: so that one can be READ or WRITTEN, and another be
// told of, while one is read and the next waits.
inline constexpr uint32_t kStreamLongMessages = 4;

// Connections that one poller serves on one device. Bounds its queues, which a
// device allocates when they are made: the completions of 1024 connections fit
// a completion queue of 32767, the longest that rdma_rxe makes.
inline constexpr uint32_t kMaxConnectionsPerPoller = 1024;

// Connections of one poller and device that have not been let in, because their
// clients have not said HELLO, or not shown their credentials: when no place is
// left, they may have half of all, and those of one IPv4 address or IPv6
// network of 64 bits a quarter. If they have, the oldest kEndedTogether end,
// and later clients get their places. Letting a client in takes a few round
// trips, so crowds that come at once are no attack.
inline constexpr uint32_t kEndedTogether = 32;

// The least of such connections that are an attack, where a device has room for
// a few.
inline constexpr uint32_t kLeastUnadmitted = 4;

// --- Arenas and bulk transfers ---------------------------------------------

// Arenas that a client may offer on one connection. Each is larger than the one
// before, so sixteen reach any size; the server keeps a descriptor for each.
inline constexpr uint32_t kMaxArenas = 16;

// The arena whose address travels in the CM private data.
inline constexpr uint64_t kFirstArenaBytes = uint64_t{1} << 20;

// Memory that a server registers for bulk transfers when it begins.
inline constexpr uint64_t kFirstBulkRegionBytes = uint64_t{1} << 20;

// Registered memory for large messages unless the options say otherwise: of a
// connection at a client, of a poller and device at a server. Holds two calls
// of the longest messages that the defaults allow.
inline constexpr uint64_t kDefaultLargeBytes = uint64_t{512} << 20;

// A connection that has some of a server's bulk memory gets more only as long
// as it then has no more than kPoolShare times what is left for others. Alone
// it comes to seven eighths of all, which no call misses that could be fast:
// by default 448 MiB, while READs and WRITEs have 2 MiB under way. The eighth
// that is left lets a large call of the next connection begin at once.
inline constexpr uint64_t kPoolShare = 7;

// Bytes that an idle pool of registered memory keeps unless its options say
// otherwise: as much as it begins with. Each connection of a client has such a
// pool, and each device of a server's poller.
inline constexpr uint64_t kDefaultMemoryFloorBytes =
    kFirstArenaBytes > kFirstBulkRegionBytes ? kFirstArenaBytes
                                             : kFirstBulkRegionBytes;

// For how many seconds further memory must not have been used before it is
// given back. To get 64 MiB anew, untouched and registered, takes tens of
// milliseconds: so who comes back sooner than this pays less than one in a
// hundred for it.
inline constexpr int kDefaultMemoryIdleSeconds = 5;

// Bytes of one RDMA READ or WRITE. Small enough for every device's max_msg_sz
// (rxe: 8 MiB) and for large calls to take turns, large enough to cost nothing.
inline constexpr uint32_t kBulkChunkBytes = uint32_t{1} << 20;

// READs and WRITEs that one connection keeps posted.
inline constexpr uint32_t kBulkDepth = 16;

// Bytes of READs and WRITEs that one connection keeps posted, which is how many
// a small RESPONSE or a GRANT posted behind them waits for at most. It is more
// than a fast wire has under way: at 400 Gbit/s they last 40 us.
inline constexpr uint32_t kBulkWindowBytes = 2 * kBulkChunkBytes;

// Requests of kLargeReadBytes and more are large. One connection READs only
// kLargeReadsMax of them at a time; the others wait for their turn without
// memory. More at once would be no faster, but push each other out of the
// caches and take bulk memory that other connections need.
inline constexpr uint32_t kLargeReadBytes = uint32_t{256} << 10;
inline constexpr uint32_t kLargeReadsMax = 2;

// READs in flight at the device that we ask the connection manager for.
inline constexpr uint8_t kReadDepth = 16;

// Attempts that a SEND makes when the peer has no receive posted: 7 stands for
// any number. Credits promise a receive, but connections share receives, and
// one that sends beyond its credits takes those of the others until the poller
// has cut it off. They must wait that long, and a poller without a processor
// can take any time. A peer that is silent for good is found by other means:
// calls have deadlines, connections keepalives and limits of stalls.
inline constexpr uint8_t kRnrRetries = 7;

// Time after which a device sends a packet again that is not acknowledged:
// 4.096 us * 2^16 = 268 ms. The connection fails after kAckRetries, about two
// seconds; devices may take up to four times as long. By the connection
// manager's own choice it takes 17 s to 34 s, and a channel that could go by
// TCP would wait as long.
inline constexpr uint8_t kAckTimeout = 16;

// Retransmissions before the connection fails: one fewer than there may be,
// because rxe takes 7 for ever.
inline constexpr uint8_t kAckRetries = 6;

// --- Time ------------------------------------------------------------------

// For how many seconds a client may keep a server waiting without any progress
// unless the options say otherwise: what gRPC gives a peer that does not
// acknowledge.
inline constexpr int kDefaultStallSeconds = 20;

// --- Queues ----------------------------------------------------------------

// Among kSignalInterval frames one is signalled. Unsignalled sends complete
// silently: a connection learns of them late, but a completion for each would
// wake a side that sleeps.
inline constexpr uint32_t kSignalInterval = 16;

// Frames posted and not known to be complete: credits may come back before the
// completions of what they were spent on.
inline constexpr uint32_t kFrameDepth =
    kCredits + kGrantReceives + kSignalInterval;

// Work requests that every connection may have under way by its own right. Any
// more it takes from what the connections of a device share. Among kOwnSends
// work requests one is signalled, whose completion makes room: no connection
// waits for ever.
inline constexpr uint32_t kOwnSends = kSignalInterval;

// Work requests that the connections of one poller share on one device. The
// completion queue has room for each of these, for kOwnSends and the final
// marker of each connection, and for every receive. So it cannot overrun, even
// when all of them fail at once.
inline constexpr uint32_t kMaxSharedSends = 4096;

// Send buffers, for frames that are too long to be sent inline, that the
// connections of one poller share on one device. Bounds what it registers to
// 8 MiB, and as much again as a reserve: one for each connection. A connection
// takes a further one only while it holds fewer than are left for all: alone
// it never has to wait, and of thirteen that take all they can get each comes
// to 73 and leaves as many.
inline constexpr uint32_t kMaxSendBuffers = 1024;

// Depth of the send queue of one queue pair. The last work request of all is
// the marker that is posted when the connection ends.
inline constexpr uint32_t kSendQueueDepth = kFrameDepth + kBulkDepth + 1;
// The least that a device must offer: a frame, a READ or WRITE, and the marker.
inline constexpr uint32_t kLeastSendDepth = 3;

// A differentiated services code point has six bits, the upper ones of the
// traffic class (RFC 2474); the others are for congestion.
inline constexpr int kDscpMax = 63;
constexpr uint8_t TrafficClass(int dscp) {
  return static_cast<uint8_t>(dscp << 2);
}

// Addresses that a server tells its clients: as many as a host has networks. It
// bounds what a server makes its clients look at.
inline constexpr size_t kServerAddressesMax = 8;

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_LIMITS_H_
