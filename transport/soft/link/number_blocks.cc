#include "transport/soft/link/number_blocks.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/soft/base/unix_name.h"

namespace verbena::soft {
namespace {

// Numbers 0 and 1 are the management queue pairs of every port, 0xffffff stands
// for multicast: the first and the last block are left out.
constexpr uint32_t kBlockFirst = 1;
constexpr uint32_t kBlockLast = 0xfffe;

// Random tries after which all names count as being in use. If half of them
// are, all tries fail once in 2^64.
constexpr int kTries = 64;

}  // namespace

std::string NumberBlocks::SocketName(uint32_t number) {
  return absl::StrCat(absl::string_view("\0verbena-soft-qp/", 17),
                      absl::Hex(number >> kBlockBits, absl::kZeroPad4));
}

void NumberBlocks::OnSocket(std::function<void(int socket)> watch) {
  on_socket_ = std::move(watch);
  for (const Block& block : blocks_) {
    if (block.socket.valid()) on_socket_(block.socket.get());
  }
}

// Numbers of a kind come from the blocks of that kind; a new block is taken
// only when those are used up.
uint32_t NumberBlocks::Take(NumberKind kind) {
  for (Block& block : blocks_) {
    if (block.kind != kind) continue;
    if (const uint32_t number = TakeFrom(block); number != 0) return number;
  }
  return AddBlock(kind) ? TakeFrom(blocks_.back()) : 0;
}

// Goes round the block, so that a number that was returned comes again as late
// as possible.
uint32_t NumberBlocks::TakeFrom(Block& block) {
  if (block.taken.all()) return 0;
  while (block.taken[block.next]) block.next = (block.next + 1) % kBlockNumbers;
  const uint32_t chosen = block.next;
  block.taken.set(chosen);
  block.next = (chosen + 1) % kBlockNumbers;
  return block.first + chosen;
}

void NumberBlocks::Return(uint32_t number) {
  for (Block& block : blocks_) {
    if (number - block.first < kBlockNumbers) {
      block.taken.reset(number - block.first);
    }
  }
}

bool NumberBlocks::Has(uint32_t first) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [=](const Block& block) { return block.first == first; });
}

// `next` is random, so that not every process has the same numbers: then the
// mistake of taking one number for another shows sooner.
void NumberBlocks::Keep(uint32_t first, NumberKind kind, base::UniqueFd socket,
                        uint32_t next) {
  blocks_.push_back(
      Block{first, kind, std::move(socket), {}, next % kBlockNumbers});
}

// If somebody has all names, takes a block without one. Its numbers are unique
// in this process alone.
bool NumberBlocks::AddBlock(NumberKind kind) {
  if (kind == NumberKind::kOfHost) {
    if (AddNamedBlock()) return true;
    if (errno != EADDRINUSE) return false;
  }
  return AddNamelessBlock(kind);
}

// Tries names at random. To bind a socket to a name is to take the block,
// because the kernel gives a name only once.
bool NumberBlocks::AddNamedBlock() {
  base::UniqueFd socket(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return false;
  // The kernel adds the user of its sender to each message.
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t first = (kBlockFirst + random() % named_) << kBlockBits;
    const UnixName name(SocketName(first));
    if (::bind(socket.get(), name.get(), name.length()) == 0) {
      if (on_socket_) on_socket_(socket.get());
      Keep(first, NumberKind::kOfHost, std::move(socket), random());
      return true;
    }
    // Another name would fail for the same reason.
    if (errno != EADDRINUSE) return false;
  }
  errno = EADDRINUSE;
  return false;
}

bool NumberBlocks::AddNamelessBlock(NumberKind kind) {
  constexpr uint32_t kNameless = kBlockLast - (kBlockFirst + kNamedBlocks) + 1;
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t first = (kBlockFirst + kNamedBlocks + random() % kNameless)
                           << kBlockBits;
    // Blocks without names are unique in this process alone.
    if (Has(first)) continue;
    Keep(first, kind, base::UniqueFd(), random());
    return true;
  }
  return false;
}

}  // namespace verbena::soft
