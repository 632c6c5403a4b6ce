#include "rpc/resolvers/etcd_follower.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/resolvers/etcd_api.pb.h"
#include "rpc/resolvers/etcd_resolver.h"
#include "rpc/resolvers/etcd_target.h"
#include "rpc/resolvers/etcd_value.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"

namespace verbena::internal {
namespace {

// Keys of one reply: even long values fit well into its time.
constexpr int kKeysAtOnce = 1'000;

constexpr char kRange[] = "/etcdserverpb.KV/Range";
constexpr char kWatch[] = "/etcdserverpb.Watch/Watch";

}  // namespace

EtcdFollower::EtcdFollower(EtcdLoop& loop, std::string prefix,
                           EtcdOptions options, Resolver::OnResult on_result)
    : loop_(loop),
      prefix_(std::move(prefix)),
      config_key_(absl::StrCat(prefix_, "/", kEtcdConfigName)),
      range_end_(EtcdRangeEnd(prefix_)),
      on_result_(std::move(on_result)),
      client_(
          loop, std::move(options), [this] { OnReady(); },
          [this](const absl::Status& status) {
            told_failure_ = true;
            on_result_.Call(status);
          }) {}

void EtcdFollower::Fail(const absl::Status& why) {
  watch_ = nullptr;
  check_ = nullptr;
  client_.Fail(why);
}

void EtcdFollower::Restart(const absl::Status& why) {
  revision_ = 0;
  Fail(why);
}

bool EtcdFollower::IsAnother(const etcd::ResponseHeader& header) {
  const uint64_t before = std::exchange(cluster_id_, header.cluster_id());
  if (before == 0 || before == cluster_id_) return false;
  Restart(absl::UnavailableError("another cluster answers at its end points"));
  return true;
}

// --- Reading ---

void EtcdFollower::OnReady() {
  if (revision_ != 0) return Watch();
  // No answer is made until all keys are read.
  change_ = nullptr;
  entries_.merge(old_entries_);
  old_entries_.clear();
  old_entries_.swap(entries_);
  service_config_.clear();
  Read(absl::StrCat(prefix_, "/"), /*revision=*/0);
}

void EtcdFollower::Read(const std::string& key, int64_t revision) {
  etcd::RangeRequest request;
  request.set_key(key);
  request.set_range_end(range_end_);
  request.set_limit(kKeysAtOnce);
  request.set_revision(revision);
  client_.Call<etcd::RangeResponse>(
      kRange, request,
      [this, revision](const absl::StatusOr<etcd::RangeResponse>& page) {
        if (!page.ok()) return Fail(page.status());
        OnRead(*page, revision == 0 ? page->header().revision() : revision);
      });
}

// All pages show the keys as they were at the revision of the first one.
void EtcdFollower::OnRead(const etcd::RangeResponse& page, int64_t revision) {
  if (IsAnother(page.header())) return;
  for (const etcd::KeyValue& pair : page.kvs()) Take(pair);
  if (page.more() && !page.kvs().empty()) {
    // The least key that is greater.
    return Read(page.kvs().rbegin()->key() + '\0', revision);
  }
  old_entries_.clear();
  revision_ = revision + 1;
  Change();
  Watch();
}

// --- Watching ---

void EtcdFollower::Watch() {
  etcd::WatchRequest request;
  request.mutable_create_request()->set_key(absl::StrCat(prefix_, "/"));
  request.mutable_create_request()->set_range_end(range_end_);
  request.mutable_create_request()->set_start_revision(revision_);
  watch_ = client_.connection().Stream(
      kWatch, request.SerializeAsString(),
      [this](const std::string& message) {
        etcd::WatchResponse response;
        if (!response.ParseFromString(message)) {
          return Fail(absl::InternalError("a reply of Watch is damaged"));
        }
        OnWatched(response);
      },
      [this](const absl::Status& status) {
        Fail(status.ok() ? absl::UnavailableError("Watch has ended") : status);
      });
  check_ = loop_.At(base::Now() + client_.options().request_timeout, [this] {
    Fail(absl::DeadlineExceededError("Watch is not answered in time"));
  });
}

void EtcdFollower::OnWatched(const etcd::WatchResponse& response) {
  if (IsAnother(response.header())) return;
  if (response.compact_revision() != 0) {
    // The changes since `revision_` are gone.
    revision_ = 0;
    watch_ = nullptr;
    check_ = nullptr;
    return OnReady();
  }
  if (response.canceled()) {
    return Fail(absl::UnavailableError(
        absl::StrCat("Watch was refused: ", response.cancel_reason())));
  }
  if (response.created()) {
    client_.Succeed();
    ScheduleCheck();
    // The servers that are known are good again.
    if (told_failure_) Change();
  }
  for (const etcd::Event& event : response.events()) {
    const etcd::KeyValue& pair = event.kv();
    revision_ = std::max(revision_, pair.mod_revision() + 1);
    if (event.type() == etcd::Event::PUT) {
      Take(pair);
    } else if (pair.key() == config_key_) {
      service_config_.clear();
    } else {
      entries_.erase(pair.key());
    }
  }
  if (!response.events().empty()) Change();
}

void EtcdFollower::ScheduleCheck() {
  check_ = loop_.At(base::Now() + client_.options().check_interval,
                    [this] { Check(); });
}

// A read that the majority must agree to: a member that is cut off from the
// others would else serve for ever, and never have news.
void EtcdFollower::Check() {
  etcd::RangeRequest request;
  request.set_key(config_key_);
  request.set_count_only(true);
  client_.Call<etcd::RangeResponse>(
      kRange, request,
      // News of the watch may come before this answer, which is older.
      [this,
       seen = revision_](const absl::StatusOr<etcd::RangeResponse>& response) {
        if (!response.ok()) return Fail(response.status());
        if (IsAnother(response->header())) return;
        // A watch from a revision of the future would be silent.
        if (response->header().revision() < seen - 1) {
          return Restart(absl::UnavailableError(
              "the cluster has lost its history, as from an old backup"));
        }
        ScheduleCheck();
      });
}

// --- Answers ---

// Values that have not changed since they were read keep their entries, so that
// a wrong one is logged once.
void EtcdFollower::Take(const etcd::KeyValue& pair) {
  if (pair.key() == config_key_) {
    service_config_ = pair.value();
    return;
  }
  const auto old = old_entries_.find(pair.key());
  if (old != old_entries_.end() &&
      old->second.revision == pair.mod_revision()) {
    entries_[pair.key()] = std::move(old->second);
    return;
  }
  Entry entry = {.revision = pair.mod_revision(),
                 .server = ParseEtcdValue(pair.value())};
  if (!entry.server.ok()) {
    base::Log::OfProcess().Write(
        LogSeverity::kWarning,
        absl::StrCat("etcd: the key ", absl::CHexEscape(pair.key()),
                     " is no server: ", entry.server.status().message()));
  }
  entries_.insert_or_assign(pair.key(), std::move(entry));
}

void EtcdFollower::Change() {
  if (change_ != nullptr) return;
  change_ = loop_.At(base::Now(), [this] {
    change_ = nullptr;
    told_failure_ = false;
    on_result_.Call(Answer());
  });
}

// If several keys have one address, the one that was written last counts.
absl::StatusOr<Resolved> EtcdFollower::Answer() {
  absl::flat_hash_map<absl::string_view, int64_t> newest;
  const Entry* wrong = nullptr;
  for (const auto& [key, entry] : entries_) {
    if (entry.server.ok()) {
      int64_t& revision = newest[entry.server->address];
      revision = std::max(revision, entry.revision);
    } else {
      wrong = &entry;
    }
  }
  if (newest.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "etcd has no server under ", absl::CHexEscape(prefix_), "/",
        wrong == nullptr ? ""
                         : absl::StrCat(", but a value that is wrong: ",
                                        wrong->server.status().message())));
  }
  Resolved resolved;
  resolved.service_config = service_config_;
  for (const auto& [key, entry] : entries_) {
    if (!entry.server.ok()) continue;
    // Keys that one transaction wrote have one revision: the first counts.
    const auto found = newest.find(entry.server->address);
    if (found == newest.end() || found->second != entry.revision) continue;
    newest.erase(found);
    if (resolved.servers.size() == kMaxEtcdServers) {
      too_many_.Say(absl::StrCat("etcd has more than ", kMaxEtcdServers,
                                 " servers under ", absl::CHexEscape(prefix_),
                                 "/; the others are left out"));
      break;
    }
    resolved.servers.push_back(*entry.server);
  }
  return resolved;
}

}  // namespace verbena::internal
