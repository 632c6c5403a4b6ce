#include "rpc/internal/client/interception.h"

#include <utility>

#include "absl/memory/memory.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

std::unique_ptr<ClientInterception> ClientInterception::New(
    const Factories& factories, absl::string_view method, RpcType type,
    ClientContext* context) {
  auto made = absl::WrapUnique(new ClientInterception(method, type, context));
  for (const auto& factory : factories) {
    // A null one is the status of the call, which comes later.
    if (factory == nullptr) continue;
    auto interceptor = factory->CreateClientInterceptor(&made->info_);
    if (interceptor != nullptr) {
      made->interceptors_.push_back(std::move(interceptor));
    }
  }
  // Then the call pays nothing more for interceptors.
  if (made->interceptors_.empty()) return nullptr;
  return made;
}

absl::Status ClientInterception::Start() {
  // Kept, because End() puts them back: the context may serve further calls.
  users_metadata_ = info_.client_context()->metadata();
  for (const auto& interceptor : interceptors_) {
    // Counted before OnStart(): one that refuses the call hears of the end,
    // too.
    ++started_;
    absl::Status status = interceptor->OnStart();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ClientInterception::OnSendMessage(const MessageLite& message) {
  const base::MutexLock lock(sending_);
  // The thread of a late write may come here after End().
  if (sent_all_) return;
  for (const auto& interceptor : interceptors_) {
    interceptor->OnSendMessage(message);
  }
}

void ClientInterception::OnReceiveMessage(MessageLite* message) {
  const base::MutexLock lock(receiving_);
  if (received_all_) return;
  TellInitialMetadata();
  // In reverse: the interceptor that was added first is the nearest to the
  // application.
  for (auto each = interceptors_.rbegin(); each != interceptors_.rend();
       ++each) {
    (*each)->OnReceiveMessage(message);
  }
}

void ClientInterception::TellInitialMetadata() {
  // Once a call, though each message asks.
  if (std::exchange(told_initial_metadata_, true)) return;
  const Metadata& metadata = info_.client_context()->GetServerInitialMetadata();
  if (metadata.empty()) return;
  for (size_t i = started_; i-- > 0;) {
    interceptors_[i]->OnReceiveInitialMetadata(metadata);
  }
}

// Closes both directions under their mutexes, so that no other thread is in an
// interceptor when OnEnd() runs.
void ClientInterception::End(absl::Status* status) {
  {
    const base::MutexLock lock(receiving_);
    if (std::exchange(received_all_, true)) return;
    // A call without a message tells of them here.
    TellInitialMetadata();
  }
  {
    const base::MutexLock lock(sending_);
    sent_all_ = true;
  }
  for (size_t i = started_; i-- > 0;) interceptors_[i]->OnEnd(status);
  ClientCallState::Of(*info_.client_context()).options().metadata =
      std::move(users_metadata_);
  interceptors_.clear();
}

}  // namespace verbena::internal
