// What arrives on the socket of a block of queue pair numbers (number_blocks.h)
// from a process that has something for one of them.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_
#define VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_

#include <cstdint>

namespace verbena::soft {

enum class LinkOfferKind : uint32_t {
  kLink = 1,  // From this host; with the memory file and the doorbells' socket.
  kTcp = 2,   // From another host; with the TCP connection, preamble unread.
};

struct LinkOffer {
  static constexpr uint64_t kMagic = 0x323064616e686276;  // "vbhand02"

  uint64_t magic = kMagic;
  LinkOfferKind kind = LinkOfferKind::kLink;
  uint32_t from = 0;  // Numbers of the queue pairs.
  uint32_t to = 0;
  uint32_t zero = 0;
};
static_assert(sizeof(LinkOffer) == 24);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_
