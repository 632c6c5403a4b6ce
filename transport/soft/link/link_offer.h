// The message that arrives on the socket of a block of queue pair numbers
// (number_blocks.h) from a process that offers one of them a link.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_
#define VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_

#include <cstdint>

namespace verbena::soft {

enum class LinkOfferKind : uint32_t {
  // A link within this host, with its memory file and the doorbells' socket.
  kLink = 1,
  // A link from another host, with its TCP connection, preamble unread.
  kTcp = 2,
};

struct LinkOffer {
  static constexpr uint64_t kMagic = 0x323064616e686276;  // "vbhand02"

  uint64_t magic = kMagic;
  LinkOfferKind kind = LinkOfferKind::kLink;
  uint32_t from = 0;  // The queue pair of the process that has made the link.
  uint32_t to = 0;    // The queue pair that the link is for.
  uint32_t zero = 0;
};
static_assert(sizeof(LinkOffer) == 24);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_LINK_OFFER_H_
