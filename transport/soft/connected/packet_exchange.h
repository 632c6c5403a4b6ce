// The exchange of packets between a queue pair and its peer over their link.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_PACKET_EXCHANGE_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_PACKET_EXCHANGE_H_

#include <infiniband/verbs.h>

#include <utility>

#include "transport/soft/connected/requester.h"
#include "transport/soft/connected/responder.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/link_end.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {

// The requester, the responder, and the link that both use: one pass of the
// protocol in either direction. This class knows nothing of states, of sleep or
// of locks.
//
// The objects that the environments name must outlive the exchange. Not
// thread-safe: protected by the queue pair's lock.
class PacketExchange {
 public:
  // The result of a pass over the incoming packets.
  enum class Taken {
    kNothing,
    kPackets,
    kBroken,  // A correct peer cannot have sent it.
  };

  PacketExchange(const Requester::Environment& requester,
                 const Responder::Environment& responder,
                 const ibv_qp_init_attr& attributes)
      : requester_(requester, attributes), responder_(responder) {}

  LinkEnd& link() { return link_; }
  const LinkEnd& link() const { return link_; }
  Requester& requester() { return requester_; }
  const Requester& requester() const { return requester_; }
  Responder& responder() { return responder_; }

  // The next three methods REQUIRE that link().attached().

  // Handles some of the packets that have come.
  Taken TakePackets();
  // Takes note of what the peer says by words beside its packets; false when a
  // correct peer cannot have said it.
  bool ReadPeerWords();
  // Sends some of what there is to send. Responses and requests take turns:
  // neither may hold up the other. Returns whether there may be more to send.
  bool Transmit();

  // Whether a request has failed, or the peer's has been refused for good: then
  // the queue pair must enter ERR.
  bool failed() const { return requester_.failed() || responder_.failed(); }
  // Whether the peer has refused a request since TakeNakReceived(): it may have
  // to be sent again at a later time.
  bool nak_received() const { return nak_received_; }
  bool TakeNakReceived() { return std::exchange(nak_received_, false); }
  // Whether a response or a request waits for room in the ring.
  bool has_unsent() const {
    return requester_.has_unsent() || responder_.wants_progress();
  }
  // Whether the peer is likely to send more, or to make room, at any moment.
  bool TransferUnderWay() const;
  // Returns for which changes the peer must ring while nobody polls.
  LinkSleep WantedSleep() const {
    return requester_.wants_progress() || responder_.wants_progress()
               ? kSleepForAcks
               : kSleepForPackets;
  }

 private:
  bool HandlePacket(const Packet& packet);
  bool TransmitBoth();

  LinkEnd link_;
  Requester requester_;
  Responder responder_;
  bool nak_received_ = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_PACKET_EXCHANGE_H_
