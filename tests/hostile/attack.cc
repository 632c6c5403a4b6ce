#include "tests/hostile/attack.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace verbena::hostile {

using transport::FrameHeader;
using transport::FrameText;
using transport::FrameType;
using transport::HeaderOf;
using transport::RawPeer;
using transport::ResponseHeader;

std::shared_ptr<Channel> Attacker::NewChannel() const {
  return CreateChannel(target_.open);
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

std::unique_ptr<RawPeer> Attacker::Noted(std::unique_ptr<RawPeer> raw) {
  if (raw != nullptr) {
    ++connections_;
    connected_at_[raw.get()] = base::Now();
  } else {
    ++refused_;
  }
  return raw;
}

std::unique_ptr<RawPeer> Attacker::Connected(const RawPeer::Options& options,
                                             const Claim& claim) {
  absl::StatusOr<std::unique_ptr<RawPeer>> raw =
      RawPeer::Create(target_.open, options);
  if (!raw.ok()) return Noted(nullptr);
  transport::ConnectRequest request = (*raw)->Request();
  if (claim != nullptr) claim(request.arena);
  const absl::StatusOr<transport::CmEvent> event =
      (*raw)->Connect(EncodeConnectRequest(request));
  if (!event.ok() || event->type != RDMA_CM_EVENT_ESTABLISHED) {
    return Noted(nullptr);
  }
  return Noted(*std::move(raw));
}

std::unique_ptr<RawPeer> Attacker::Opened(
    const RawPeer::Options& options,
    const std::vector<transport::HelloOption>& hello, const Claim& claim) {
  std::unique_ptr<RawPeer> raw = Connected(options, claim);
  if (raw == nullptr) return nullptr;
  if (raw->Send(FrameText(raw->Header(FrameType::kHello), EncodeOptions(hello)))
          .ok() &&
      raw->Receive(FrameType::kWelcome).ok()) {
    return raw;
  }
  NoteRefusal();
  return nullptr;
}

void Attacker::Repeat(const RawPeer::Options& options,
                      absl::FunctionRef<void(RawPeer&)> act) {
  while (!over()) {
    const std::unique_ptr<RawPeer> raw = Opened(options);
    if (raw != nullptr) act(*raw);
  }
}

// A flood polls without a pause. An attacker that waits for long leaves the
// processor to others, for its polling is no part of the attack.
void Attacker::AwaitEnd(RawPeer& raw) {
  const absl::Time patience = base::Now() + absl::Milliseconds(5);
  while (!over()) {
    const absl::StatusOr<std::optional<std::string>> frame = raw.TryReceive();
    if (!frame.ok()) {
      const absl::Duration kept = base::Now() - connected_at_[&raw];
      ++ended_;
      const base::MutexLock lock(mutex_);
      longest_ = std::max(longest_, kept);
      return;
    }
    if (!frame->has_value()) {
      if (base::Now() < patience) {
        std::this_thread::yield();
      } else {
        Rest(absl::Milliseconds(1));
      }
    } else {
      NoteFrame(**frame);
    }
  }
}

void Attacker::NoteFrame(const std::string& frame) {
  if (frame.size() < sizeof(FrameHeader)) return;
  const FrameType type = HeaderOf<FrameHeader>(frame).type;
  if (type == FrameType::kBye) {
    NoteWord(frame.substr(sizeof(FrameHeader)));
  } else if (type == FrameType::kResponse) {
    const auto header = HeaderOf<ResponseHeader>(frame);
    if (header.status_message_bytes == 0) return;
    NoteWord(frame.substr(sizeof(header), header.status_message_bytes));
  }
}

void Attacker::NoteWord(std::string word) {
  // Behind the words that the reasons of a BYE begin with.
  const std::string before = " was closed because ";
  const size_t at = word.find(before);
  if (at != std::string::npos) word = word.substr(at + before.size());
  const base::MutexLock lock(mutex_);
  last_word_ = std::move(word);
}

void Attacker::Wait() {
  while (!over()) Rest(left());
}

void Attacker::Rest(absl::Duration time) {
  const absl::Time until = std::min(end_, base::Now() + time);
  base::Mutex mutex;
  base::CondVar never;
  const base::MutexLock lock(mutex);
  while (base::Now() < until) never.WaitUntil(mutex, until);
}

std::string Attacker::Account() {
  const base::MutexLock lock(mutex_);
  std::string got =
      ended_ == 0
          ? "-1"
          : absl::StrFormat("%.1f", absl::ToDoubleMilliseconds(longest_));
  absl::StrAppend(&got, " ", connections_.load(), " connections");
  if (refused_ > 0) absl::StrAppend(&got, ", ", refused_.load(), " refused");
  if (ended_ > 0) absl::StrAppend(&got, ", ", ended_.load(), " ended");
  if (!last_word_.empty()) absl::StrAppend(&got, ": ", last_word_);
  return got;
}

std::vector<Attack> AllAttacks() {
  std::vector<Attack> all;
  for (const absl::Span<const Attack> some :
       {AttacksOfConnections(), AttacksOfFrames(), AttacksOfMemory(),
        AttacksOfWaiting(), AttacksOfCalls()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

int RunAttack(absl::string_view name, const Target& target,
              absl::Duration duration) {
  for (const Attack& attack : AllAttacks()) {
    if (attack.name != name) continue;
    std::string line;
    std::getline(std::cin, line);
    Attacker attacker(target, duration);
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
