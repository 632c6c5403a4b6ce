#include "tests/testing/echo_handler.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "transport/base/clock.h"
#include "transport/polling/posted_function.h"

namespace verbena::testing_support {
namespace {

using transport::Buffer;
using transport::PostFunction;
using transport::ServerCall;

absl::string_view Text(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A reply of metadata and message that owns itself.
class OwnedReply final : public transport::ReplyWriter {
 public:
  explicit OwnedReply(std::string bytes) : bytes_(std::move(bytes)) {}
  void WriteReply(uint8_t* out) override {
    std::memcpy(out, bytes_.data(), bytes_.size());
  }
  void OnReplyDone() override { delete this; }

 private:
  const std::string bytes_;
};

// `bytes` are the metadata of the request and then the message.
void FinishWith(ServerCall* call, std::string bytes) {
  // Messages of even length take the short way to end a call if they can, so
  // that tests use both ways.
  if (bytes.size() % 2 == 0 && call->metadata().empty() &&
      call->attachment().empty()) {
    if (uint8_t* const out = call->BeginReply(bytes.size())) {
      std::memcpy(out, bytes.data(), bytes.size());
      return call->SendReply();
    }
  }
  ServerCall::Reply reply;
  const size_t metadata_bytes = call->metadata().size();
  if (metadata_bytes > transport::kFrameMetadataBytes) {
    reply.long_metadata = bytes.substr(0, metadata_bytes);
    bytes.erase(0, metadata_bytes);
  } else {
    reply.metadata_bytes = static_cast<uint32_t>(metadata_bytes);
  }
  reply.message_bytes = bytes.size() - reply.metadata_bytes;
  reply.attachment = call->TakeAttachment();
  if (!bytes.empty()) reply.writer = new OwnedReply(std::move(bytes));
  call->Finish(std::move(reply));
}

void FinishEmpty(ServerCall* call) { call->Finish({}); }

// Metadata and message of a call.
std::string EchoOf(const ServerCall& call) {
  return absl::StrCat(Text(call.metadata()), Text(call.message()));
}

void FinishWithBuffer(ServerCall* call) {
  std::string bytes = EchoOf(*call);
  if (bytes.size() <= transport::kFrameReplyBytes ||
      !call->attachment().empty() ||
      call->metadata().size() > transport::kFrameMetadataBytes) {
    FinishWith(call, std::move(bytes));
    return;
  }
  absl::StatusOr<Buffer> buffer = call->AllocateReply(bytes.size());
  if (!buffer.ok()) {
    FinishWith(call, std::move(bytes));
    return;
  }
  ServerCall::Reply reply;
  reply.metadata_bytes = static_cast<uint32_t>(call->metadata().size());
  reply.message_bytes = bytes.size() - reply.metadata_bytes;
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  reply.buffer = *std::move(buffer);
  call->Finish(std::move(reply));
}

void FinishProduced(ServerCall* call) {
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(Text(call->message()), &bytes)) bytes = 0;
  ServerCall::Reply reply;
  reply.message_bytes = bytes;
  if (bytes > 0) reply.writer = new OwnedReply(TestBytes(bytes));
  call->Finish(std::move(reply));
}

void FinishAttached(ServerCall* call) {
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(Text(call->message()), &bytes)) bytes = 0;
  ServerCall::Reply reply;
  reply.attachment = Buffer::Plain(bytes);
  const std::string text = TestBytes(bytes);
  std::copy(text.begin(), text.end(), reply.attachment.data());
  call->Finish(std::move(reply));
}

void FinishGrown(ServerCall* call) {
  std::string bytes;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&bytes, Text(call->message()));
  FinishWith(call, std::move(bytes));
}

void FinishFailed(ServerCall* call) {
  ServerCall::Reply reply;
  reply.status = absl::AbortedError(Text(call->message()));
  call->Finish(std::move(reply));
}

}  // namespace

std::string TestBytes(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  uint32_t state = seed * 2654435761u + 1;
  size_t i = 0;
  for (; i + sizeof(state) <= bytes; i += sizeof(state)) {
    state = state * 1664525u + 1013904223u;
    std::memcpy(&text[i], &state, sizeof(state));
  }
  for (; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + seed);
  return text;
}

EchoHandler::EchoHandler() : worker_([this] { Work(); }) {}

EchoHandler::~EchoHandler() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  worker_.join();
}

void EchoHandler::OnCall(ServerCall* call) {
  {
    const base::MutexLock lock(mutex_);
    ++calls_;
    last_client_ = call->auth_context();
  }
  switch (static_cast<TestMethod>(call->method_id())) {
    case TestMethod::kEcho:
      return FinishWith(call, EchoOf(*call));
    case TestMethod::kEchoWorker: {
      // The bytes of a small message are there only now.
      Job job = {call, EchoOf(*call)};
      const base::MutexLock lock(mutex_);
      jobs_.push_back(std::move(job));
      changed_.NotifyAll();
      return;
    }
    case TestMethod::kEchoBuffer:
      return FinishWithBuffer(call);
    case TestMethod::kHold:
      return Hold(call, /*stubborn=*/false);
    case TestMethod::kHoldStubborn:
      return Hold(call, /*stubborn=*/true);
    case TestMethod::kDiscard:
      return FinishEmpty(call);
    case TestMethod::kProduce:
      return FinishProduced(call);
    case TestMethod::kGrow:
      return FinishGrown(call);
    case TestMethod::kFail:
      return FinishFailed(call);
    case TestMethod::kAttach:
      return FinishAttached(call);
  }
  ServerCall::Reply reply;
  reply.status = absl::UnimplementedError("no such method");
  call->Finish(std::move(reply));
}

void EchoHandler::OnCancelled(ServerCall* call) {
  bool held = false;
  {
    const base::MutexLock lock(mutex_);
    ++cancelled_;
    const auto found = std::find(holding_.begin(), holding_.end(), call);
    held = found != holding_.end();
    if (held) holding_.erase(found);
    changed_.NotifyAll();
  }
  if (held) FinishEmpty(call);
}

void EchoHandler::OnUnauthenticated() {
  const base::MutexLock lock(mutex_);
  ++unauthenticated_;
  changed_.NotifyAll();
}

void EchoHandler::Hold(ServerCall* call, bool stubborn) {
  bool released = false;
  {
    const base::MutexLock lock(mutex_);
    ++held_;
    released = released_;
    if (!released) (stubborn ? stubborn_ : holding_).push_back(call);
    changed_.NotifyAll();
  }
  if (released) FinishEmpty(call);
}

void EchoHandler::Release() {
  std::vector<ServerCall*> calls;
  {
    const base::MutexLock lock(mutex_);
    released_ = true;
    calls = std::exchange(stubborn_, {});
    // The others may be cancelled, and so end, until the poller has them.
    for (ServerCall* call : holding_) {
      PostFunction(call->poller(), [this, call] {
        {
          const base::MutexLock inner(mutex_);
          const auto found = std::find(holding_.begin(), holding_.end(), call);
          if (found == holding_.end()) return;
          holding_.erase(found);
        }
        FinishEmpty(call);
      });
    }
  }
  for (ServerCall* call : calls) {
    PostFunction(call->poller(), [call] { FinishEmpty(call); });
  }
}

void EchoHandler::Work() {
  base::MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && jobs_.empty()) changed_.Wait(mutex_);
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.Unlock();
    PostFunction(job.first->poller(),
                 [call = job.first, bytes = std::move(job.second)]() mutable {
                   FinishWith(call, std::move(bytes));
                 });
    lock.Lock();
  }
}

bool EchoHandler::Await(int EchoHandler::*number, int count) {
  const absl::Time deadline = base::Now() + kTestTimeout;
  const base::MutexLock lock(mutex_);
  while (this->*number < count) {
    if (!changed_.WaitUntil(mutex_, deadline)) return this->*number >= count;
  }
  return true;
}

bool EchoHandler::AwaitHeld(int count) {
  return Await(&EchoHandler::held_, count);
}
bool EchoHandler::AwaitCancelled(int count) {
  return Await(&EchoHandler::cancelled_, count);
}
bool EchoHandler::AwaitUnauthenticated(int count) {
  return Await(&EchoHandler::unauthenticated_, count);
}

int EchoHandler::held() const {
  const base::MutexLock lock(mutex_);
  return held_;
}
int EchoHandler::calls() const {
  const base::MutexLock lock(mutex_);
  return calls_;
}
int EchoHandler::cancelled() const {
  const base::MutexLock lock(mutex_);
  return cancelled_;
}
int EchoHandler::unauthenticated() const {
  const base::MutexLock lock(mutex_);
  return unauthenticated_;
}
std::shared_ptr<const transport::AuthContext> EchoHandler::last_client() const {
  const base::MutexLock lock(mutex_);
  return last_client_;
}

}  // namespace verbena::testing_support
