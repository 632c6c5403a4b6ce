#include "rpc/internal/server/interception.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

std::unique_ptr<ServerInterception> ServerInterception::New(
    const Factories& factories, absl::string_view method, RpcType type,
    ServerCallState* call) {
  auto made = absl::WrapUnique(new ServerInterception(method, type, call));
  for (const auto& factory : factories) {
    auto interceptor = factory->CreateServerInterceptor(&made->info_);
    if (interceptor != nullptr) {
      made->interceptors_.push_back(std::move(interceptor));
    }
  }
  if (made->interceptors_.empty()) return nullptr;
  return made;
}

absl::Status ServerInterception::Start() {
  for (const auto& interceptor : interceptors_) {
    // Counted before OnStart(): one that refuses the call hears of the end,
    // too.
    ++started_;
    absl::Status status;
    Guard([&] { status = interceptor->OnStart(); });
    TakeException(&status);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ServerInterception::OnSendMessage(const MessageLite& message) {
  Guard([&] {
    for (auto each = interceptors_.rbegin(); each != interceptors_.rend();
         ++each) {
      (*each)->OnSendMessage(message);
    }
  });
}

void ServerInterception::OnReceiveMessage(MessageLite* message) {
  Guard([&] {
    for (const auto& interceptor : interceptors_) {
      interceptor->OnReceiveMessage(message);
    }
  });
}

void ServerInterception::End(absl::Status* status) {
  // An exception of a message hook is the status that OnEnd() sees.
  TakeException(status);
  for (size_t i = started_; i-- > 0;) {
    Guard([&] { interceptors_[i]->OnEnd(status); });
    TakeException(status);
  }
}

void ServerInterception::TakeException(absl::Status* status) {
  // Relaxed: the flag carries nothing else. It is cleared, so that each
  // exception counts once.
  if (!threw_.exchange(false, std::memory_order_relaxed)) return;
  *status = absl::UnknownError(
      absl::StrCat(info_.method(), ": an interceptor threw an exception"));
}

void ServerInterception::Guard(absl::FunctionRef<void()> hook) {
  try {
    hook();
  } catch (...) {
    // The exception's text is not for clients.
    threw_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace verbena::internal
