// Fuzzes the private data of peers that connect, and the options of HELLO and
// WELCOME frames.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/check.h"
#include "transport/wire/hello.h"
#include "transport/wire/server_addresses.h"

namespace verbena::transport {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void CheckLimits(const PeerLimits& limits) {
  CHECK_GE(limits.buffer_bytes, kMinBufferBytes);
  CHECK_GE(limits.credits, kMinCredits);
  CHECK_GE(limits.max_open_calls, 1);
  CHECK_GE(limits.max_receive_message_bytes, 1);
  CHECK_LE(limits.max_receive_message_bytes, kMaxMessageBytes);
  CHECK_LE(limits.max_metadata_bytes, kMaxMetadataBytes);
}

// Checks that what a decoder accepts is encoded to something that the decoder
// accepts, too.
void Check(absl::Span<const uint8_t> data) {
  if (const auto request = DecodeConnectRequest(data); request.ok()) {
    CheckLimits(request->limits);
    CHECK(CheckArena(request->arena).ok());
    const std::string again = EncodeConnectRequest(*request);
    CHECK_LE(again.size(), kConnectPrivateBytesMax);
    CHECK(DecodeConnectRequest(Bytes(again)).ok());
    CHECK(std::equal(again.begin(), again.end(), fuzz::AsText(data).begin()));
  }
  if (const auto reply = DecodeConnectReply(data); reply.ok()) {
    CheckLimits(reply->limits);
    const std::string again = EncodeConnectReply(*reply);
    CHECK_LE(again.size(), kAcceptPrivateBytesMax);
    CHECK(DecodeConnectReply(Bytes(again)).ok());
  }
  if (const auto reject = DecodeReject(data); reject.ok()) {
    CHECK(!RejectStatus(*reject).ok());
    const std::string again = EncodeReject(*reject);
    CHECK_LE(again.size(), kRejectPrivateBytesMax);
    CHECK(DecodeReject(Bytes(again)).ok());
  }
  if (const auto options = DecodeOptions(data); options.ok()) {
    const auto again = DecodeOptions(Bytes(EncodeOptions(*options)));
    CHECK(again.ok());
    CHECK_EQ(again->size(), options->size());
  }
  if (const auto addresses = DecodeServerAddresses(fuzz::AsText(data));
      addresses.ok()) {
    CHECK_LE(addresses->addresses.size(), kServerAddressesMax);
    CHECK(DecodeServerAddresses(EncodeServerAddresses(*addresses)).ok());
  }
}

}  // namespace
}  // namespace verbena::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::transport::Check({data, size});
  return 0;
}
