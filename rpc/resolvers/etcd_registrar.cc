#include "rpc/resolvers/etcd_registrar.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/resolvers/etcd_api.pb.h"
#include "transport/base/clock.h"

namespace verbena::internal {

EtcdRegistrar::EtcdRegistrar(EtcdLoop& loop, Pairs pairs, absl::Duration ttl,
                             EtcdOptions options,
                             std::function<void(const absl::Status&)> on_status)
    : loop_(loop),
      pairs_(std::move(pairs)),
      ttl_(ttl),
      on_status_(on_status ? std::move(on_status) : [](const absl::Status&) {}),
      client_(
          loop, std::move(options), [this] { OnReady(); },
          [this](const absl::Status& status) { OnFailure(status); }),
      granted_ttl_(ttl),
      status_(absl::UnavailableError("etcd has not answered yet")),
      withdrawal_(status_) {}

void EtcdRegistrar::OnReady() {
  if (phase_ == Phase::kWithdraw) {
    Revoke();
  } else if (lease_ == 0) {
    Grant();
  } else if (written_) {
    Renew();
  } else {
    Put(0);
  }
}

void EtcdRegistrar::Fail(const absl::Status& why) {
  renewal_ = nullptr;
  client_.Fail(why);
}

void EtcdRegistrar::OnFailure(const absl::Status& status) {
  if (phase_ != Phase::kRegister) return;
  warning_.Say(absl::StrCat("the server ", pairs_.front().first,
                            " cannot be kept in etcd: ", status.message()));
  SetStatus(status);
}

void EtcdRegistrar::Grant() {
  etcd::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(ttl_));
  client_.Call<etcd::LeaseGrantResponse>(
      "/etcdserverpb.Lease/LeaseGrant", request,
      [this](const absl::StatusOr<etcd::LeaseGrantResponse>& response) {
        if (!response.ok()) return Fail(response.status());
        if (!response->error().empty()) {
          return Fail(absl::UnavailableError(response->error()));
        }
        lease_ = response->id();
        granted_ttl_ = absl::Seconds(response->ttl());
        written_ = false;
        Put(0);
      });
}

void EtcdRegistrar::Put(size_t next) {
  if (next == pairs_.size()) {
    written_ = true;
    client_.Succeed();
    SetStatus(absl::OkStatus());
    return ScheduleRenewal();
  }
  etcd::PutRequest request;
  request.set_key(pairs_[next].first);
  request.set_value(pairs_[next].second);
  request.set_lease(lease_);
  client_.Call<etcd::PutResponse>(
      "/etcdserverpb.KV/Put", request,
      [this, next](const absl::StatusOr<etcd::PutResponse>& response) {
        if (response.ok()) return Put(next + 1);
        if (absl::IsNotFound(response.status())) lease_ = 0;  // Ran out.
        Fail(response.status());
      });
}

// The call is for a stream of renewals. As a unary call it is a stream of one.
void EtcdRegistrar::Renew() {
  etcd::LeaseKeepAliveRequest request;
  request.set_id(lease_);
  client_.Call<etcd::LeaseKeepAliveResponse>(
      "/etcdserverpb.Lease/LeaseKeepAlive", request,
      [this](const absl::StatusOr<etcd::LeaseKeepAliveResponse>& response) {
        if (!response.ok()) return Fail(response.status());
        if (response->ttl() <= 0) {  // Ran out, and the keys are gone.
          lease_ = 0;
          return Grant();
        }
        client_.Succeed();
        SetStatus(absl::OkStatus());
        ScheduleRenewal();
      });
}

void EtcdRegistrar::ScheduleRenewal() {
  renewal_ = loop_.At(base::Now() + granted_ttl_ / 3, [this] { Renew(); });
}

void EtcdRegistrar::Withdraw() {
  if (phase_ != Phase::kRegister) return;
  phase_ = Phase::kWithdraw;
  renewal_ = nullptr;
  SetStatus(absl::CancelledError("the server was withdrawn"));
  if (lease_ == 0) return EndWithdrawal();
  client_.Connect();
}

// A key that is being written is gone with the lease, too: etcd does one after
// the other, and refuses to write for a lease that it does not know.
void EtcdRegistrar::Revoke() {
  etcd::LeaseRevokeRequest request;
  request.set_id(lease_);
  // The destructor waits for one timeout, which three end points must share.
  const absl::Duration timeout = client_.options().request_timeout /
                                 std::min<size_t>(client_.end_points(), 3);
  client_.CallFor<etcd::LeaseRevokeResponse>(
      timeout, "/etcdserverpb.Lease/LeaseRevoke", request,
      [this](const absl::StatusOr<etcd::LeaseRevokeResponse>& response) {
        if (response.ok() || absl::IsNotFound(response.status())) {
          return EndWithdrawal();
        }
        {
          const base::MutexLock lock(mutex_);
          withdrawal_ = response.status();
        }
        Fail(response.status());
      });
}

void EtcdRegistrar::Stop() {
  renewal_ = nullptr;
  client_.Stop();
}

void EtcdRegistrar::SetStatus(absl::Status status) {
  {
    const base::MutexLock lock(mutex_);
    if (status_ == status) return;
    status_ = status;
    changed_.NotifyAll();
  }
  on_status_.Call(status);
}

void EtcdRegistrar::EndWithdrawal() {
  phase_ = Phase::kOver;
  Stop();
  const base::MutexLock lock(mutex_);
  withdrawn_ = true;
  changed_.NotifyAll();
}

absl::Status EtcdRegistrar::status() const {
  const base::MutexLock lock(mutex_);
  return status_;
}

absl::Status EtcdRegistrar::Await(absl::Time deadline) const {
  const base::MutexLock lock(mutex_);
  while (!status_.ok() && changed_.WaitUntil(mutex_, deadline)) {
  }
  return status_;
}

absl::Status EtcdRegistrar::AwaitWithdrawal(absl::Time deadline) const {
  const base::MutexLock lock(mutex_);
  while (!withdrawn_ && changed_.WaitUntil(mutex_, deadline)) {
  }
  if (withdrawn_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "etcd has not withdrawn the server in time: ", withdrawal_.message(),
      "; it stays for ", absl::FormatDuration(ttl_), " at most"));
}

}  // namespace verbena::internal
