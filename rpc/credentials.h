// Credentials: what a channel and a server show each other when they connect.
//
// Programs that use credentials include this file besides rpc/rpc.h. Shared
// secrets are in rpc/credentials/shared_secret.h, a target of its own, because
// it needs libsodium.
//
//   builder.AddListeningPort("0.0.0.0:50051", LocalServerCredentials());
//   ... CreateChannel("127.0.0.1:50051", LocalCredentials());
//
// A server with credentials takes no call before the client has shown its own,
// and refuses it with UNAUTHENTICATED and the reason otherwise; a channel with
// credentials makes no call before the server has shown its own. Both must be
// of the same kind. If a side does not accept the other's credentials, the
// connection ends: the channel's calls end with UNAUTHENTICATED, and it tries
// again after the pause that follows every failed attempt.
// Server::failed_authentications() counts these.
//
// Limits: nothing that crosses the network is encrypted, and after the
// handshake nothing is authenticated either, because RDMA offers neither. An
// attacker who can read the network can read the calls. An attacker who can
// change packets can change calls and replies, and take over a connection. So
// credentials only keep out peers that can connect and should not. Against
// attackers between the two sides, protect the network below (MACsec, IPsec on
// the NIC, a VLAN of its own).

#ifndef VERBENA_RPC_CREDENTIALS_H_
#define VERBENA_RPC_CREDENTIALS_H_

#include <memory>

#include "absl/status/status.h"
#include "rpc/metadata.h"
#include "transport/base/auth_context.h"
#include "transport/base/credentials.h"

namespace verbena {

// The identity of a call's client: ServerContext::auth_context(). Properties by
// name, of which one may be the peer's identity.
using AuthContext = transport::AuthContext;

// The property that says which kind of credentials a client has shown.
inline constexpr const char* kSecurityTypeProperty =
    transport::kSecurityTypeProperty;

// A channel's credentials: what it shows to servers and requires of them.
// Immutable, and may be used by any number of channels. Derive from it for a
// kind of your own.
class ChannelCredentials : public transport::ClientCredentials {};

// A port's credentials: what a server shows to clients and requires of them. As
// ChannelCredentials, they are immutable.
class ServerCredentials : public transport::ServerCredentials {};

// No credentials: nothing is shown or asked, and everybody may call. The
// default of channels and ports. (On the software device, processes of other
// users of the same host are refused all the same: see VERBENA_SOFT_PEERS.)
std::shared_ptr<ChannelCredentials> InsecureChannelCredentials();
std::shared_ptr<ServerCredentials> InsecureServerCredentials();

// Accepts processes of the same user on the same host, as the kernel reports
// it, on the software device only. Everybody else is refused, and so is root
// unless both are root. On an RDMA device nobody knows whose process the peer
// is, and every connection is refused; where a host has one, name the device
// "soft" on both sides.
//
// auth_context() has the property "transport_security_type", "local", and as
// the identity "user", the number of the user.
std::shared_ptr<ChannelCredentials> LocalCredentials();
std::shared_ptr<ServerCredentials> LocalServerCredentials();

// Looks at each call of a server before its handler: for tokens that callers
// put into their metadata, beside or instead of the credentials of connections.
// Set by ServerBuilder::SetAuthMetadataProcessor(). Thread-safe, because calls
// run on many threads.
class AuthMetadataProcessor {
 public:
  virtual ~AuthMetadataProcessor() = default;

  // `auth_metadata` are all metadata of the call. `context` has the properties
  // of the client's connection; what is added to it is seen by the handler of
  // this call, but not by other calls. Pairs that are added to `consumed` are
  // removed from the metadata that the handler sees. Pairs that are added to
  // `response` are sent ahead of the answer, as initial metadata. If the status
  // is not OK, the call ends with it, and no handler runs.
  //
  // Runs where the handler runs, after the request was parsed. May block if the
  // handler may: see HandlerMode.
  virtual absl::Status Process(const Metadata& auth_metadata,
                               AuthContext* context, Metadata* consumed,
                               Metadata* response) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_H_
