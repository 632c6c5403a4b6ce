// The part of ServerSet that takes the answers of the resolver.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/client/server_set.h"
#include "rpc/internal/service/balancers.h"
#include "rpc/internal/service/file_resolver.h"
#include "rpc/internal/service/literal_resolver.h"
#include "rpc/internal/service/subset.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// Leaves the first of those with the same address, and no weight of zero.
void Normalise(std::vector<ServerAddress>* servers) {
  absl::flat_hash_set<std::string> seen;
  std::erase_if(*servers, [&](const ServerAddress& server) {
    return !seen.insert(server.address).second;
  });
  for (ServerAddress& server : *servers) {
    server.weight = std::max<uint32_t>(server.weight, 1);
  }
}

}  // namespace

std::shared_ptr<ResolverFactory> ServerSet::FindFactory(
    const std::string& scheme, const ChannelOptions& options) {
  for (const auto& factory : options.resolvers) {
    if (factory->scheme() == scheme) return factory;
  }
  if (scheme == "ipv4") return std::make_shared<LiteralResolvers>(AF_INET);
  if (scheme == "ipv6") return std::make_shared<LiteralResolvers>(AF_INET6);
  if (scheme == "file") return std::make_shared<FileResolvers>();
  return nullptr;
}

// An answer that is of no use changes nothing, if there was a better one.
void ServerSet::OnAnswer(absl::StatusOr<Resolved> answer) {
  const absl::Status error =
      answer.ok() ? UseAnswer(*std::move(answer)) : answer.status();
  if (error.ok()) {
    resolve_error_ = absl::OkStatus();
    resolve_backoff_.Reset();
  } else {
    OnResolveError(error);
  }
  if (only_ == nullptr) return Refresh();
  buffers_.Set(only_->buffer_source());
  Publish();
  const bool wanted = std::exchange(wanted_, false);
  if (wanted || IsWaitedFor()) only_->Connect();
}

void ServerSet::OnResolveError(const absl::Status& why) {
  const bool may_pass = !absl::IsInvalidArgument(why);
  const absl::Status before = std::exchange(
      resolve_error_,
      absl::Status(
          may_pass ? absl::StatusCode::kUnavailable : why.code(),
          absl::StrCat("no servers of ", target_, ": ", why.message())));
  if (before != resolve_error_) {
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat(resolve_error_.message(),
                     servers_.empty() ? "" : "; those before are kept"));
  }
  if (!may_pass) return;
  // A resolver that could not be made does not look again by itself.
  poller_.LowerTimer(&resolve_timer_,
                     base::Now() + resolve_backoff_.Next(/*was_cheap=*/false,
                                                         crowd_->LeastPause()));
}

void ServerSet::OnResolveTimer() {
  if (resolver_ != nullptr && !resolve_error_.ok()) resolver_->ResolveNow();
}

absl::Status ServerSet::UseAnswer(Resolved answer) {
  std::vector<ServerAddress>& servers = answer.servers;
  if (servers.empty()) {
    return absl::UnavailableError("the resolver has found none");
  }
  Normalise(&servers);
  const absl::Status config = UseConfig(answer.service_config);
  if (!config.ok()) {
    const std::string text =
        absl::StrCat("the service config is wrong: ", config.message());
    if (servers_.empty()) return absl::UnavailableError(text);
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat(target_, ": ", text, "; the one before is kept"));
  }
  if (balancer_ == nullptr) {
    UseOne(servers);
  } else {
    UseEach(std::move(servers));
  }
  return absl::OkStatus();
}

absl::Status ServerSet::UseConfig(const std::string& given) {
  const std::string& json = given.empty() ? options_.service_config : given;
  if (json == config_json_) return absl::OkStatus();
  std::shared_ptr<const ServiceConfig> config;
  if (!json.empty()) {
    ASSIGN_OR_RETURN(config, ServiceConfig::Parse(json));
  }
  ASSIGN_OR_RETURN(
      ChosenPolicy chosen,
      ChoosePolicy(config == nullptr ? std::vector<ServiceConfig::Policy>()
                                     : config->policies(),
                   {options_.balancers, seed_, options_.locality}));
  std::string policy = absl::StrCat(chosen.name, chosen.config);
  config_json_ = json;
  config_ = std::move(config);
  if (policy == policy_) return absl::OkStatus();
  policy_ = std::move(policy);
  // Either one subchannel has all addresses, or each has one.
  if ((balancer_ == nullptr) != (chosen.balancer == nullptr)) RemoveAll();
  ClearReady();
  // As the new balancer does not know it.
  for (const auto& server : servers_) {
    server->set_ejected(false);
    server->set_load_weight(0);
  }
  balancer_ = std::move(chosen.balancer);
  return absl::OkStatus();
}

void ServerSet::UseOne(const std::vector<ServerAddress>& servers) {
  std::vector<std::string> addresses;
  for (const ServerAddress& server : servers) {
    addresses.push_back(server.address);
  }
  if (only_ != nullptr && only_->Keeps(addresses)) return;
  RemoveAll();
  AddOnly(std::move(addresses));
}

void ServerSet::AddOnly(std::vector<std::string> addresses) {
  Add(NewServer({.address = target_}, std::move(addresses)));
  only_ = &servers_.front()->subchannel;
}

// The order by address makes the servers' order the same for all clients.
void ServerSet::UseEach(std::vector<ServerAddress> servers) {
  const auto max_servers = static_cast<size_t>(options_.max_servers);
  if (options_.client_number >= 0) {
    ChooseNumberedSubset(
        max_servers, static_cast<uint64_t>(options_.client_number), &servers);
  } else {
    ChooseSubset(max_servers, seed_, &servers);
  }
  std::map<std::string, ServerAddress> wanted;
  for (ServerAddress& server : servers) {
    std::string address = server.address;
    wanted.emplace(std::move(address), std::move(server));
  }
  std::map<std::string, std::unique_ptr<ServiceServer>> known;
  {
    const base::MutexLock lock(mutex_);
    for (auto& entry : servers_) {
      std::string address = entry->address().address;
      known.emplace(std::move(address), std::move(entry));
    }
    servers_.clear();
    for (auto& [address, server] : wanted) {
      auto found = known.extract(address);
      if (found.empty()) {
        servers_.push_back(NewServer(std::move(server), {address}));
      } else {
        found.mapped()->set_address(std::move(server));
        servers_.push_back(std::move(found.mapped()));
      }
    }
  }
  // The balancer still has those that leave, until Refresh().
  ClearReady();
  for (auto& [address, entry] : known) Remove(std::move(entry));
  for (const auto& entry : servers_) entry->subchannel.Connect();
}

void ServerSet::RemoveAll() {
  Servers all;
  {
    const base::MutexLock lock(mutex_);
    all = std::move(servers_);
    servers_.clear();
  }
  only_ = nullptr;
  ClearReady();
  for (auto& entry : all) Remove(std::move(entry));
}

// Its calls go on.
void ServerSet::Remove(std::unique_ptr<ServiceServer> entry) {
  Subchannel& subchannel = entry->subchannel;
  entry->EndWatch();
  leaving_.push_back(std::move(entry));
  subchannel.Drain();
}

void ServerSet::OnDrained(Subchannel* subchannel) {
  ownership_.AssertHeld();
  const auto found = std::find_if(
      leaving_.begin(), leaving_.end(),
      [&](const auto& entry) { return &entry->subchannel == subchannel; });
  subchannel->Shut();
  gone_.push_back(std::move(*found));
  leaving_.erase(found);
  reap_.Post();
}

void ServerSet::Reap() {
  ownership_.AssertHeld();
  gone_.clear();
}

}  // namespace verbena::internal
