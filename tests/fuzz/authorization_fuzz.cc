// Authorization policies: any text is a policy or an error, and what a policy
// denies does not depend on how it is asked.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/stubs/logging.h"
#include "rpc/authorization/authorization_policy.h"
#include "rpc/authorization/denial_log.h"
#include "rpc/metadata.h"
#include "tests/fuzz/fuzz_input.h"
#include "transport/base/auth_context.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// Takes a text of up to 15 bytes.
absl::string_view Text(fuzz::FuzzInput& input) {
  return fuzz::AsText(input.Bytes(input.Below(16)));
}

// Draws a client of any kind, with names or without.
transport::AuthContext Peer(fuzz::FuzzInput& input) {
  transport::AuthContext peer;
  constexpr absl::string_view kTypes[] = {"", "ssl", "tls", "shared_secret"};
  const absl::string_view type = kTypes[input.Below(4)];
  if (!type.empty()) peer.AddProperty(transport::kSecurityTypeProperty, type);
  constexpr absl::string_view kNames[] = {"peer_uri", "peer_dns",
                                          "x509_subject", "key_name"};
  for (uint32_t left = input.Below(4); left > 0; --left) {
    peer.AddProperty(kNames[input.Below(4)], Text(input));
  }
  peer.SetPeerIdentityPropertyName(kNames[input.Below(4)]);
  return peer;
}

void Check(fuzz::FuzzInput input) {
  // Protobuf itself says at length what is wrong with a text.
  google::protobuf::SetLogHandler(nullptr);
  const transport::AuthContext peer = Peer(input);
  const std::string path = absl::StrCat("/", Text(input));
  Metadata metadata;
  for (uint32_t left = input.Below(4); left > 0; --left) {
    const absl::string_view key = Text(input);
    metadata.emplace(key, Text(input));
  }
  const absl::StatusOr<std::shared_ptr<const AuthorizationPolicy>> policy =
      AuthorizationPolicy::Parse(fuzz::AsText(input.Rest()));
  if (!policy.ok()) {
    CHECK(absl::IsInvalidArgument(policy.status()));
    CHECK(!policy.status().message().empty());
    return;
  }
  CHECK(!(*policy)->name().empty());
  const PolicyRequest request = {
      .path = path, .peer = peer, .metadata = metadata};
  const AuthorizationPolicy::Decision decision = (*policy)->Decide(request);
  // Only a rule allows a call.
  CHECK(!decision.allowed || !decision.rule.empty());
  const std::string text =
      DenialText(request, "10.0.0.7:1", (*policy)->name(), decision.rule);
  for (const char letter : text) CHECK(letter >= ' ' && letter <= '~');
}

}  // namespace
}  // namespace verbena::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::internal::Check({data, size});
  return 0;
}
