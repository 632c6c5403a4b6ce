// The messages of two connection managers, and how they are sent and received.
//
// Each side of a connection holds an end of a SOCK_SEQPACKET Unix socket as
// long as the connection lives. The socket carries these messages, and single
// bytes kDoorbell of the queue pairs (link.h). The active side speaks first:
//
//   active                              passive
//   kConnectRequest + memory file   ->
//                                   <-  kConnectReply, or kReject
//   kReadyToUse, or kReject         ->
//   kDisconnect                    <->  kDisconnect
//
// The end of the socket means that the other process let go or died.
//
// A user may drive a queue pair of his own, which the connection manager does
// not know (own_queue_pair). Then the memory file is not used: the two queue
// pairs find each other as those do that are connected manually, and the active
// side says kReadyToUse when its user does (rdma_establish).

#ifndef VERBENA_TRANSPORT_SOFT_LINK_CM_MESSAGE_H_
#define VERBENA_TRANSPORT_SOFT_LINK_CM_MESSAGE_H_

#include <array>
#include <cstdint>

#include "transport/base/socket_address.h"
#include "transport/soft/base/foreign_fd.h"

namespace verbena::soft {

enum class CmMessageType : uint8_t {
  kConnectRequest = 1,
  kConnectReply = 2,
  kReadyToUse = 3,
  kReject = 4,
  kDisconnect = 5,
};

inline constexpr uint8_t kCmVersion = 2;

// Private data that fits each message: what InfiniBand's connection manager
// leaves to the user of librdmacm. Receivers always see all of it, padded with
// zeros, as they do there.
inline constexpr uint8_t kRequestDataBytes = 56;
inline constexpr uint8_t kReplyDataBytes = 196;
inline constexpr uint8_t kRejectDataBytes = 148;

// Reasons of a rejection, as InfiniBand numbers them.
inline constexpr uint16_t kNoResources = 3;       // Descriptors, memory.
inline constexpr uint16_t kInvalidServiceId = 8;  // Nobody listens.
inline constexpr uint16_t kConsumerReject = 28;  // Also when a backlog is full.
// Two reasons of our own, which InfiniBand does not know. Users read them in
// the words of transport/verbs/cm_event.cc. The first: the other end is a
// process of a user that this one has nothing to do with.
inline constexpr uint16_t kOtherUser = 0x5601;
// The second: the program that has the TCP port answers in another protocol, or
// is a software device of another version.
inline constexpr uint16_t kForeignPort = 0x5602;

// A message of any type. iWARP carries the image of some to other hosts
// (stream_message.h), so the layout is part of the protocol: a change of it
// takes another kCmVersion. Numbers are in the byte order of x86. Fields that a
// type does not use are zero.
struct CmMessage {
  CmMessageType type = CmMessageType::kDisconnect;
  uint8_t version = kCmVersion;

  // Requests and replies: what rdma_conn_param says, in the sender's terms.
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;      // Requests only: for both sides.
  uint8_t rnr_retry_count = 0;  // For the receiver of the message.
  uint16_t reject_reason = 0;   // As InfiniBand numbers it.
  uint32_t qp_num = 0;
  // Requests and replies: not 0 if the user drives the queue pair.
  uint32_t own_queue_pair = 0;

  // Requests only: the address that was dialled, which a wildcard listener
  // cannot know.
  uint32_t destination_scope = 0;
  uint16_t destination_family = 0;
  uint16_t destination_port = 0;
  std::array<uint8_t, 16> destination_host = {};

  std::array<uint8_t, kReplyDataBytes> private_data = {};

  void SetDestination(const base::SocketAddress& address);
  // Empty when the sender has written nonsense.
  base::SocketAddress Destination() const;
};
static_assert(sizeof(CmMessage) == 236);

// Sends `message`, with the descriptor `fd_to_pass` unless it is negative.
// Never blocks. Returns 0 or an errno: EAGAIN when the peer does not read.
int SendCmMessage(int socket, const CmMessage& message, int fd_to_pass = -1);

// A message read from a peer that may be anybody. Only its length, its version
// and the range of its type have been checked.
struct CmReceived {
  enum class Kind {
    kNothing,  // No message is there now.
    kDoorbell,
    kMessage,
    kGarbage,  // A message that no correct peer sends; nothing of it is kept.
    kEnd,      // No message is there, and none will ever come.
    kLater,    // A message with descriptors, for which there is no room now.
  };
  Kind kind = Kind::kNothing;
  CmMessage message;
  ForeignFd fd;  // With kMessage: the descriptor that came along, if any.
  // With kGarbage: a descriptor came along, and this process had no room for
  // it.
  bool lost_fd = false;
};

// Never blocks.
CmReceived ReceiveCmMessage(int socket);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_CM_MESSAGE_H_
