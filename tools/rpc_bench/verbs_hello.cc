#include "tools/rpc_bench/verbs_hello.h"

#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace verbena::bench {
namespace {

// "VBN1" of the client, "VBN2" of the server. Little-endian, as all that runs
// this is.
constexpr uint32_t kHelloMagic = 0x314e4256;
constexpr uint32_t kWelcomeMagic = 0x324e4256;

constexpr uint32_t kMaxOutstanding = 1024;
constexpr uint32_t kMaxReceiveDepth = 16384;
constexpr uint32_t kMaxInlineBytes = 4096;

struct HelloWire {
  uint32_t magic;
  VerbsPlan plan;
  uint8_t events;
  uint16_t inline_bytes;
  uint32_t outstanding;
  uint32_t receive_depth;
  uint64_t size_bytes;
  uint64_t address;
  uint32_t rkey;
  uint32_t zero;
};
static_assert(sizeof(HelloWire) <= 56);  // What InfiniBand lets it carry.

struct WelcomeWire {
  uint32_t magic;
  uint32_t rkey;
  uint64_t address;
};

absl::Status CheckHello(const HelloWire& wire) {
  if (wire.plan < VerbsPlan::kSmallEcho ||
      wire.plan > VerbsPlan::kMemoryStream) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown plan ", static_cast<int>(wire.plan)));
  }
  if (wire.outstanding == 0 || wire.outstanding > kMaxOutstanding ||
      wire.receive_depth > kMaxReceiveDepth ||
      wire.inline_bytes > kMaxInlineBytes ||
      wire.size_bytes > kMaxVerbsMemoryBytes / wire.outstanding) {
    return absl::InvalidArgumentError(
        absl::StrCat(wire.outstanding, " outstanding of ", wire.size_bytes,
                     " bytes, ", wire.receive_depth, " receives and ",
                     wire.inline_bytes, " bytes inline are too much"));
  }
  return absl::OkStatus();
}

// Reads `data`, which may be longer.
template <typename Wire>
absl::StatusOr<Wire> Read(absl::Span<const uint8_t> data, uint32_t magic) {
  Wire wire;
  if (data.size() >= sizeof(wire)) {
    std::memcpy(&wire, data.data(), sizeof(wire));
    if (wire.magic == magic) return wire;
  }
  return absl::InvalidArgumentError(
      "the peer is not the verbs layer of this version of rpc_bench");
}

template <typename Wire>
std::string Text(const Wire& wire) {
  return std::string(reinterpret_cast<const char*>(&wire), sizeof(wire));
}

}  // namespace

std::string EncodeHello(const VerbsHello& hello) {
  HelloWire wire = {};
  wire.magic = kHelloMagic;
  wire.plan = hello.plan;
  wire.events = hello.events ? 1 : 0;
  wire.inline_bytes = static_cast<uint16_t>(hello.inline_bytes);
  wire.outstanding = hello.outstanding;
  wire.receive_depth = hello.receive_depth;
  wire.size_bytes = hello.size_bytes;
  wire.address = hello.address;
  wire.rkey = hello.rkey;
  return Text(wire);
}

std::string EncodeWelcome(const VerbsWelcome& welcome) {
  WelcomeWire wire = {};
  wire.magic = kWelcomeMagic;
  wire.rkey = welcome.rkey;
  wire.address = welcome.address;
  return Text(wire);
}

absl::StatusOr<VerbsHello> DecodeHello(absl::Span<const uint8_t> data) {
  const absl::StatusOr<HelloWire> wire = Read<HelloWire>(data, kHelloMagic);
  if (!wire.ok()) return wire.status();
  if (absl::Status status = CheckHello(*wire); !status.ok()) return status;
  VerbsHello hello;
  hello.plan = wire->plan;
  hello.events = wire->events != 0;
  hello.inline_bytes = wire->inline_bytes;
  hello.outstanding = wire->outstanding;
  hello.receive_depth = wire->receive_depth;
  hello.size_bytes = wire->size_bytes;
  hello.address = wire->address;
  hello.rkey = wire->rkey;
  return hello;
}

absl::StatusOr<VerbsWelcome> DecodeWelcome(absl::Span<const uint8_t> data) {
  const absl::StatusOr<WelcomeWire> wire =
      Read<WelcomeWire>(data, kWelcomeMagic);
  if (!wire.ok()) return wire.status();
  VerbsWelcome welcome;
  welcome.address = wire->address;
  welcome.rkey = wire->rkey;
  return welcome;
}

}  // namespace verbena::bench
