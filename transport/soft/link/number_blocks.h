// Queue pair numbers that are unique on the host.
//
// The 24 bits are divided into blocks of 256. A process owns a block by holding
// a datagram socket of that name in the abstract namespace of Unix sockets,
// which the network namespace has only once: the kernel keeps the register, and
// frees the block when the process dies. The socket is also where others find
// the process that owns a number.
//
// Anybody may take all those names. So a part of the blocks has none: a process
// that finds no other uses numbers of these, which other processes may have
// too. They do for the connection manager, where nobody is found by a number.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_NUMBER_BLOCKS_H_
#define VERBENA_TRANSPORT_SOFT_LINK_NUMBER_BLOCKS_H_

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "transport/base/unique_fd.h"

namespace verbena::soft {

// Among which queue pairs a number is unique: those of the process, or those of
// the host, whose other processes find it by its number.
enum class NumberKind { kOfProcess, kOfHost };

// The blocks of this process. They are kept until it is destroyed.
//
// Not thread-safe.
class NumberBlocks {
 public:
  // How many of the 65534 blocks have names.
  static constexpr uint32_t kNamedBlocks = 0xf000;

  // `named` is for tests.
  explicit NumberBlocks(uint32_t named = kNamedBlocks) : named_(named) {}
  NumberBlocks(const NumberBlocks&) = delete;
  NumberBlocks& operator=(const NumberBlocks&) = delete;

  // Calls `watch` with the socket of each block that has a name: those that
  // there are, and each new one. The sockets are borrowed for as long as this
  // lives.
  void OnSocket(std::function<void(int socket)> watch);

  // Takes a number; 0 when there is none or the process is out of descriptors.
  // A number that was returned is taken again as late as possible: a peer may
  // still think of it as what it was.
  uint32_t Take(NumberKind kind);
  void Return(uint32_t number);

  // The name, with its leading zero byte, of the socket of the process that
  // owns `number`.
  static std::string SocketName(uint32_t number);

 private:
  static constexpr uint32_t kBlockBits = 8;
  static constexpr uint32_t kBlockNumbers = 1u << kBlockBits;

  struct Block {
    uint32_t first;
    NumberKind kind;
    base::UniqueFd socket;  // None if the block has no name.
    std::bitset<kBlockNumbers> taken;
    uint32_t next = 0;  // Where to look for a free number first.
  };

  bool AddBlock(NumberKind kind);
  // Returns whether a block was added, and sets errno if not.
  bool AddNamedBlock();
  bool AddNamelessBlock(NumberKind kind);
  bool Has(uint32_t first) const;
  void Keep(uint32_t first, NumberKind kind, base::UniqueFd socket,
            uint32_t next);
  static uint32_t TakeFrom(Block& block);

  std::function<void(int socket)> on_socket_;  // Null before OnSocket().
  const uint32_t named_;
  std::vector<Block> blocks_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_NUMBER_BLOCKS_H_
