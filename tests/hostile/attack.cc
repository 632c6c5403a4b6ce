#include "tests/hostile/attack.h"

#include <unistd.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/mutex.h"

namespace verbena::hostile {

using transport::FrameHeader;
using transport::FrameType;
using transport::RawPeer;

std::shared_ptr<Channel> Attacker::NewChannel() const {
  return CreateChannel(address_);
}

RawPeer::Options Attacker::Small() {
  RawPeer::Options options;
  options.arena_bytes = 64 << 10;
  return options;
}

RawPeer::Options Attacker::Careless() {
  RawPeer::Options options = Small();
  options.keeps_to_credits = false;
  return options;
}

std::unique_ptr<RawPeer> Attacker::Connected(const RawPeer::Options& options) {
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(address_, options);
  if (raw.ok()) {
    const absl::StatusOr<transport::CmEvent> event =
        (*raw)->Connect(EncodeConnectRequest((*raw)->Request()));
    if (event.ok() && event->type == RDMA_CM_EVENT_ESTABLISHED) {
      ++connections_;
      return *std::move(raw);
    }
  }
  ++refused_;
  return nullptr;
}

std::unique_ptr<RawPeer> Attacker::Opened(
    const RawPeer::Options& options,
    const std::vector<transport::HelloOption>& hello) {
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(address_, options);
  if (raw.ok() && (*raw)->Open(hello).ok()) {
    ++connections_;
    return *std::move(raw);
  }
  ++refused_;
  return nullptr;
}

void Attacker::Repeat(const RawPeer::Options& options,
                      absl::FunctionRef<void(RawPeer&)> act) {
  while (!over()) {
    const std::unique_ptr<RawPeer> raw = Opened(options);
    if (raw == nullptr) continue;
    act(*raw);
  }
}

void Attacker::AwaitEnd(RawPeer& raw) {
  while (!over()) {
    const absl::StatusOr<std::string> frame = raw.Receive();
    if (absl::IsDeadlineExceeded(frame.status())) continue;
    if (!frame.ok()) {
      ++ended_;
      return;
    }
    if (frame->size() >= sizeof(FrameHeader) &&
        transport::HeaderOf<FrameHeader>(*frame).type == FrameType::kBye) {
      const base::MutexLock lock(mutex_);
      last_word_ = frame->substr(sizeof(FrameHeader));
    }
  }
}

void Attacker::Wait() {
  base::Mutex mutex;
  base::CondVar never;
  const base::MutexLock lock(mutex);
  while (!over()) never.WaitUntil(mutex, end_);
}

std::string Attacker::Account() {
  std::string got = absl::StrCat(connections_.load(), " connections");
  if (refused_ > 0) absl::StrAppend(&got, ", ", refused_.load(), " refused");
  if (ended_ > 0) absl::StrAppend(&got, ", ", ended_.load(), " ended");
  const base::MutexLock lock(mutex_);
  if (!last_word_.empty()) absl::StrAppend(&got, ": ", last_word_);
  return got;
}

int RunAttack(absl::string_view name, const std::string& address,
              absl::Duration duration) {
  for (const Attack& attack : AllAttacks()) {
    if (attack.name != name) continue;
    Attacker attacker(address, duration);
    std::thread([&] { attack.run(attacker); }).detach();
    attacker.Wait();
    std::printf("got %s\n", attacker.Account().c_str());
    std::fflush(stdout);
    _exit(0);
  }
  std::fprintf(stderr, "no attack has that name\n");
  return 2;
}

}  // namespace verbena::hostile
