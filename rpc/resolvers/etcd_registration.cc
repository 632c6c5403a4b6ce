#include "rpc/resolvers/etcd_registration.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/resolvers/etcd_loop.h"
#include "rpc/resolvers/etcd_registrar.h"
#include "rpc/resolvers/etcd_target.h"
#include "rpc/resolvers/etcd_value.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using internal::EtcdLoop;
using internal::EtcdRegistrar;

constexpr size_t kAddressesMax = 100;

absl::Status Senseless(absl::string_view field, absl::string_view must) {
  return absl::InvalidArgumentError(
      absl::StrCat("EtcdAnnouncement::", field, " must ", must));
}

// Returns the keys and values of an announcement.
absl::StatusOr<EtcdRegistrar::Pairs> ToPairs(
    const EtcdAnnouncement& announcement) {
  if (announcement.prefix.empty() || announcement.prefix.back() == '/') {
    return Senseless("prefix", "be as services/orders");
  }
  if (announcement.addresses.empty() ||
      announcement.addresses.size() > kAddressesMax) {
    return Senseless("addresses",
                     absl::StrCat("have 1 to ", kAddressesMax, " elements"));
  }
  if (announcement.ttl < absl::Seconds(1) ||
      announcement.ttl > absl::Hours(24) ||
      absl::Trunc(announcement.ttl, absl::Seconds(1)) != announcement.ttl) {
    return Senseless("ttl", "be whole seconds, 1 s to a day");
  }
  ServerAddress server = {.address = {},
                          .weight = announcement.weight,
                          .locality = announcement.locality,
                          .attributes = announcement.metadata};
  if (!announcement.version.empty()) {
    server.attributes["version"] = announcement.version;
  }
  EtcdRegistrar::Pairs pairs;
  for (const std::string& address : announcement.addresses) {
    server.address = address;
    ASSIGN_OR_RETURN(std::string value, internal::MakeEtcdValue(server));
    pairs.emplace_back(absl::StrCat(announcement.prefix, "/", address),
                       std::move(value));
  }
  return pairs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdRegistration>> EtcdRegistration::Start(
    const EtcdAnnouncement& announcement, const EtcdOptions& options) {
  ASSIGN_OR_RETURN(EtcdRegistrar::Pairs pairs, ToPairs(announcement));
  RETURN_IF_ERROR(internal::CheckEtcdOptions(options));
  ASSIGN_OR_RETURN(std::shared_ptr<EtcdLoop> loop, EtcdLoop::OfProcess());
  auto registrar =
      std::make_unique<EtcdRegistrar>(*loop, std::move(pairs), announcement.ttl,
                                      options, announcement.on_status);
  return std::unique_ptr<EtcdRegistration>(new EtcdRegistration(
      std::move(loop), std::move(registrar), options.request_timeout));
}

EtcdRegistration::EtcdRegistration(std::shared_ptr<EtcdLoop> loop,
                                   std::unique_ptr<EtcdRegistrar> registrar,
                                   absl::Duration timeout)
    : loop_(std::move(loop)),
      registrar_(std::move(registrar)),
      timeout_(timeout) {
  loop_->Post([registrar = registrar_.get()] { registrar->Start(); });
}

// The thread destroys what it uses.
EtcdRegistration::~EtcdRegistration() {
  Withdraw(timeout_).IgnoreError();
  registrar_->Leave();
  loop_->Post(
      [registrar = std::move(registrar_)]() mutable { registrar = nullptr; });
}

absl::Status EtcdRegistration::status() const { return registrar_->status(); }

absl::Status EtcdRegistration::Await(absl::Duration timeout) const {
  return registrar_->Await(base::Now() + timeout);
}

absl::Status EtcdRegistration::Withdraw(absl::Duration timeout) {
  loop_->Post([registrar = registrar_.get()] { registrar->Withdraw(); });
  return registrar_->AwaitWithdrawal(base::Now() + timeout);
}

}  // namespace verbena
