// Finds servers in etcd, for targets such as "etcd:///services/orders".
//
//   verbena::EtcdOptions etcd;
//   etcd.end_points = {"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"};
//   verbena::ChannelOptions options;
//   options.resolvers.push_back(verbena::NewEtcdResolvers(etcd));
//   auto channel = verbena::CreateChannel("etcd:///services/orders", options);
//
// "etcd://10.0.0.1:2379,10.0.0.2:2379/services/orders" names other end points
// than the options.

#ifndef VERBENA_RPC_RESOLVERS_ETCD_RESOLVER_H_
#define VERBENA_RPC_RESOLVERS_ETCD_RESOLVER_H_

#include <memory>

#include "rpc/resolver.h"
#include "rpc/resolvers/etcd_options.h"

namespace verbena {

// The most servers that an answer may have. Further ones, in the order of their
// keys, are left out, and a warning is logged.
inline constexpr int kMaxEtcdServers = 20'000;

// Makes the resolvers of the scheme "etcd", for ChannelOptions::resolvers. All
// channels of a process may share one factory. All resolvers and registrations
// of a process share one thread. It ends with the last of them. Thread-safe. A
// resolver must not be destroyed inside of its OnResult.
//
// Each key that begins with "services/orders/" is a server. Its value is
//
//   {"address": "10.0.0.7:7471", "weight": 2,
//    "locality": {"region": "eu", "zone": "a", "sub_zone": "r7"},
//    "version": "41", "metadata": {"release": "blue"}}
//
// where only the address is needed. The version and the metadata become
// ServerAddress::attributes. etcd's own clients write another form, which is
// read, too: {"Op": 0, "Addr": "10.0.0.7:7471", "Metadata": ...}. If several
// keys have one address, the one that was written last counts. Servers have the
// order of their keys.
//
// The key "services/orders/service_config" is no server: its value is the
// service config.
//
// A value that is wrong is skipped, and a warning names its key and its fault.
// If no server is left, OnResult gets UNAVAILABLE.
//
// A resolver reads all keys once, and then watches them, so that a change comes
// to OnResult at once. If its end point fails, it goes on with the next one
// where it was. It reads all keys again only if etcd has compacted that part of
// its history. When all end points have failed one after the other, OnResult
// gets UNAVAILABLE with the words of the last one.
//
// Create() returns INVALID_ARGUMENT for a target or options that can't be
// right, and UNAVAILABLE if the system has no thread.
std::shared_ptr<ResolverFactory> NewEtcdResolvers(
    const EtcdOptions& options = {});

}  // namespace verbena

#endif  // VERBENA_RPC_RESOLVERS_ETCD_RESOLVER_H_
