// Who may call: what a channel and a server show each other when they connect.
//
// A program that has to do with that includes this file besides rpc/rpc.h; one
// with shared secrets also rpc/credentials/shared_secret.h, of a target of its
// own, because it takes libsodium:
//
//   builder.AddListeningPort("0.0.0.0:50051", LocalServerCredentials());
//   ... CreateChannel("127.0.0.1:50051", LocalCredentials());
//
// A server with credentials takes no call before the client has shown its own,
// and refuses it with UNAUTHENTICATED and the reason otherwise; a channel with
// credentials makes no call before the server has shown its own. Both must be
// of the same kind. What is not believed ends the connection: the channel's
// calls end with UNAUTHENTICATED, and it tries again after the pause that
// follows every failed attempt. Server::failed_authentications() counts.
//
// What this does not do: nothing that crosses the network is encrypted, and
// after the first moment nothing is authenticated either, for RDMA has neither.
// Who can read the network reads the calls; who can change what crosses it can
// change calls and replies, and take a connection over once it is there. So
// credentials keep out who can connect and should not; against who sits on the
// way between the two it takes a network that is protected below (MACsec, IPsec
// on the NIC, a VLAN of its own).

#ifndef VERBENA_RPC_CREDENTIALS_H_
#define VERBENA_RPC_CREDENTIALS_H_

#include <memory>

#include "absl/status/status.h"
#include "rpc/metadata.h"
#include "transport/base/auth_context.h"
#include "transport/base/credentials.h"

namespace verbena {

// Who the client of a call is: ServerContext::auth_context(). Properties by
// name, of which one may be the peer's identity.
using AuthContext = transport::AuthContext;

// The property that says which kind of credentials a client has shown.
inline constexpr const char* kSecurityTypeProperty =
    transport::kSecurityTypeProperty;

// What a channel shows to servers and wants to see of them. Immutable, and may
// be used by any number of channels. Derive from it for a kind of your own.
class ChannelCredentials : public transport::ClientCredentials {};

// The same for a server's port.
class ServerCredentials : public transport::ServerCredentials {};

// Nothing is shown, and nothing is asked: everybody may call. What channels and
// ports have for which nothing else is said. (On the software device processes
// of other users of the same host are refused all the same: see
// VERBENA_SOFT_PEERS.)
std::shared_ptr<ChannelCredentials> InsecureChannelCredentials();
std::shared_ptr<ServerCredentials> InsecureServerCredentials();

// Processes of the same user on the same host, by the word of the kernel, on
// the software device only: everybody else is refused, and so is root unless
// both are. On an RDMA device nobody knows whose process the peer is, and every
// connection is refused; where a host has one, name the device "soft" on both
// sides.
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

  // `auth_metadata` are all metadata of the call, and `context` is what is
  // known of the client's connection, to which it may add: the handler sees
  // that, other calls do not. What it puts into `consumed` is taken out of what
  // the handler sees; what it puts into `response` is sent ahead of the answer,
  // as initial metadata. A status that is not OK ends the call with it, and
  // there is no handler.
  //
  // Runs where the handler runs, after the request was parsed, and may block if
  // the handler may: see HandlerMode.
  virtual absl::Status Process(const Metadata& auth_metadata,
                               AuthContext* context, Metadata* consumed,
                               Metadata* response) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_H_
