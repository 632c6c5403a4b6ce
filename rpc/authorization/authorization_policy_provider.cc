#include "rpc/authorization/authorization_policy_provider.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "rpc/authorization/authorization_policy.h"
#include "rpc/authorization/denial_log.h"
#include "rpc/server_context.h"
#include "transport/base/clock.h"
#include "transport/base/file_watch.h"
#include "transport/base/log.h"
#include "transport/base/mutex.h"
#include "transport/base/status_macros.h"
#include "transport/base/thread_group.h"

namespace verbena {
namespace {

using internal::AuthorizationPolicy;
using internal::DenialLog;
using internal::PolicyRequest;

// More than ten thousand rules take.
constexpr size_t kPolicyBytesMax = size_t{4} << 20;

// The client hears no more than gRPC tells: who may call is not its business.
absl::Status Decide(const AuthorizationPolicy& policy,
                    const ServerContext& context, DenialLog* log) {
  const std::shared_ptr<const transport::AuthContext> peer =
      context.auth_context();
  const std::string path = absl::StrCat("/", context.method());
  const PolicyRequest request = {
      .path = path, .peer = *peer, .metadata = context.client_metadata()};
  const AuthorizationPolicy::Decision decision = policy.Decide(request);
  if (decision.allowed) return absl::OkStatus();
  log->Note(request, context.peer(), policy.name(), decision.rule);
  return absl::PermissionDeniedError("Unauthorized RPC request rejected.");
}

}  // namespace

class StaticDataAuthorizationPolicyProvider::Impl {
 public:
  explicit Impl(std::shared_ptr<const AuthorizationPolicy> policy)
      : policy_(std::move(policy)) {}

  absl::Status Authorize(const ServerContext& context) {
    return Decide(*policy_, context, &log_);
  }

 private:
  const std::shared_ptr<const AuthorizationPolicy> policy_;
  DenialLog log_;
};

StaticDataAuthorizationPolicyProvider::StaticDataAuthorizationPolicyProvider(
    std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
StaticDataAuthorizationPolicyProvider::
    ~StaticDataAuthorizationPolicyProvider() = default;

absl::StatusOr<std::shared_ptr<StaticDataAuthorizationPolicyProvider>>
StaticDataAuthorizationPolicyProvider::Create(
    absl::string_view authorization_policy) {
  ASSIGN_OR_RETURN(std::shared_ptr<const AuthorizationPolicy> policy,
                   AuthorizationPolicy::Parse(authorization_policy));
  return absl::WrapUnique(new StaticDataAuthorizationPolicyProvider(
      std::make_unique<Impl>(std::move(policy))));
}

absl::Status StaticDataAuthorizationPolicyProvider::Authorize(
    const ServerContext& context) {
  return impl_->Authorize(context);
}

// Reads the file under one lock, and hands the policy to the calls under
// another, so that no call waits for a disk.
class FileWatcherAuthorizationPolicyProvider::Impl {
 public:
  Impl(absl::string_view path, OnReload on_reload)
      : path_(path), on_reload_(std::move(on_reload)) {}
  ~Impl() {
    {
      const base::MutexLock lock(mutex_);
      ended_ = true;
      end_.NotifyAll();
    }
    thread_.Join();
  }

  // The first time the caller hears of an error, and on_reload does not.
  absl::Status ReadFirst() {
    const base::MutexLock lock(reading_);
    Read();
    return status_;
  }
  absl::Status StartThread(absl::Duration interval) {
    // Nothing would wake the thread but its end.
    if (interval == absl::InfiniteDuration()) return absl::OkStatus();
    return thread_.Start([this, interval] { Watch(interval); });
  }

  absl::Status Authorize(const ServerContext& context) {
    return Decide(*policy(), context, &log_);
  }

  absl::Status Reload() {
    const base::MutexLock lock(reading_);
    if (Read()) Report();
    return status_;
  }

 private:
  std::shared_ptr<const AuthorizationPolicy> policy() {
    const base::MutexLock lock(mutex_);
    return policy_;
  }

  void Watch(absl::Duration interval) {
    base::MutexLock lock(mutex_);
    for (;;) {
      const absl::Time next = base::Now() + interval;
      while (!ended_ && base::Now() < next) end_.WaitUntil(mutex_, next);
      if (ended_) return;
      lock.Unlock();
      // The log and on_reload have the status.
      (void)Reload();
      lock.Lock();
    }
  }

  // Sets status_, and policy_ if the file holds one. False, and nothing else,
  // if the file is as it was the last time.
  bool Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    absl::StatusOr<std::string> text = base::ReadFile(path_, kPolicyBytesMax);
    if (text.ok() == text_.ok() &&
        (text.ok() ? *text == *text_ : text.status() == text_.status())) {
      return false;
    }
    text_ = std::move(text);
    status_ = text_.status();
    if (!text_.ok()) return true;
    auto parsed = AuthorizationPolicy::Parse(*text_);
    if (!parsed.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path_, ": ", parsed.status().message()));
      return true;
    }
    const base::MutexLock lock(mutex_);
    policy_ = *std::move(parsed);
    return true;
  }

  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_) {
    base::Log& log = base::Log::OfProcess();
    if (status_.ok()) {
      log.Write(LogSeverity::kInfo,
                absl::StrCat("the authorization policy in ", path_,
                             " has changed, and is in force"));
    } else {
      log.Write(LogSeverity::kWarning,
                absl::StrCat("the last authorization policy stays in force: ",
                             status_.message()));
    }
    if (on_reload_ != nullptr) on_reload_(status_);
  }

  const std::string path_;
  const OnReload on_reload_;
  DenialLog log_;

  base::Mutex reading_;  // Held while the file is read.
  absl::StatusOr<std::string> text_ ABSL_GUARDED_BY(reading_);
  absl::Status status_ ABSL_GUARDED_BY(reading_);  // After the last change.

  base::Mutex mutex_;  // Held for a few instructions only.
  std::shared_ptr<const AuthorizationPolicy> policy_ ABSL_GUARDED_BY(mutex_);
  base::CondVar end_;  // ended_ was set.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  base::ThreadGroup thread_{"verbena-policy"};
};

FileWatcherAuthorizationPolicyProvider::FileWatcherAuthorizationPolicyProvider(
    std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
FileWatcherAuthorizationPolicyProvider::
    ~FileWatcherAuthorizationPolicyProvider() = default;

absl::StatusOr<std::shared_ptr<FileWatcherAuthorizationPolicyProvider>>
FileWatcherAuthorizationPolicyProvider::Create(absl::string_view path,
                                               absl::Duration refresh_interval,
                                               OnReload on_reload) {
  if (refresh_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the refresh interval of an authorization policy is ",
        absl::FormatDuration(refresh_interval), ", must be positive"));
  }
  auto impl = std::make_unique<Impl>(path, std::move(on_reload));
  RETURN_IF_ERROR(impl->ReadFirst());
  RETURN_IF_ERROR(impl->StartThread(refresh_interval));
  return absl::WrapUnique(
      new FileWatcherAuthorizationPolicyProvider(std::move(impl)));
}

absl::Status FileWatcherAuthorizationPolicyProvider::Authorize(
    const ServerContext& context) {
  return impl_->Authorize(context);
}

absl::Status FileWatcherAuthorizationPolicyProvider::Reload() {
  return impl_->Reload();
}

}  // namespace verbena
