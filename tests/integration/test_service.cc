#include "tests/integration/test_service.h"

#include <unistd.h>

#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/credentials.h"
#include "rpc/service.h"
#include "rpc/status_details.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

absl::Status DoEcho(ServerContext* context, const EchoRequest& request,
                    EchoReply* reply) {
  if (request.reply_attachment_bytes() > 0) {
    const std::string pattern =
        Pattern(request.reply_attachment_bytes(), kReplySeed);
    context->set_response_attachment(absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(pattern.data()), pattern.size()));
  } else {
    context->set_response_attachment(context->TakeRequestAttachment());
  }
  if (request.reply_bytes() == 0) {
    reply->set_payload(request.payload());
  } else {
    reply->set_payload(Pattern(request.reply_bytes(), kReplySeed));
  }
  return absl::OkStatus();
}

absl::Status DoDescribe(ServerContext* context, Description* reply) {
  reply->set_peer(context->peer());
  reply->set_device(context->device());
  reply->set_pid(getpid());
  const absl::Duration remaining = context->deadline() - absl::Now();
  reply->set_remaining_us(remaining == absl::InfiniteDuration()
                              ? -1
                              : absl::ToInt64Microseconds(remaining));
  const std::shared_ptr<const AuthContext> client = context->auth_context();
  for (const std::string& value : client->GetPeerIdentity()) {
    reply->set_identity(
        absl::StrCat(client->GetPeerIdentityPropertyName(), "=", value));
  }
  for (const auto& [name, value] : client->properties()) {
    reply->add_facts(absl::StrCat(name, "=", value));
  }
  for (const auto& [key, value] : context->client_metadata()) {
    reply->add_metadata(absl::StrCat(key, "=", value));
    if (!absl::StartsWith(key, "ahead")) {
      context->AddTrailingMetadata(key, value);
      continue;
    }
    context->AddInitialMetadata(key, value);
    if (key == "ahead-now") context->SendInitialMetadata();
  }
  return absl::OkStatus();
}

}  // namespace

std::string Pattern(size_t bytes, size_t seed) {
  std::string pattern(bytes, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15 + bytes;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    pattern[i] = static_cast<char>(state >> 56);
  }
  return pattern;
}

absl::Status EndToEndService::Echo(ServerContext* context,
                                   const EchoRequest* request,
                                   EchoReply* reply) {
  return DoEcho(context, *request, reply);
}

absl::Status EndToEndService::Fail(ServerContext* context,
                                   const FailRequest* request,
                                   Nothing* /*reply*/) {
  context->AddTrailingMetadata("failed", "yes");
  absl::Status status(static_cast<absl::StatusCode>(request->code()),
                      request->message());
  if (!request->detail().empty()) {
    Key key;
    key.set_key(request->detail());
    AddStatusDetail(&status, key);
  }
  return status;
}

absl::Status EndToEndService::Block(ServerContext* context, const Key* request,
                                    Nothing* /*reply*/) {
  const base::MutexLock lock(mutex_);
  Blocker& blocker = blockers_[request->key()];
  ++blocker.calls;
  blocker.blocked = true;
  changed_.NotifyAll();
  while (!blocker.released && !context->IsCancelled()) {
    // Polls IsCancelled() rather than using stop_token().
    changed_.WaitUntil(mutex_, base::Now() + absl::Milliseconds(2));
  }
  blocker.outcome = blocker.released ? "released" : "cancelled";
  changed_.NotifyAll();
  return absl::OkStatus();
}

void EndToEndService::AwaitBlocked(const std::string& key) {
  const base::MutexLock lock(mutex_);
  Blocker& blocker = blockers_[key];
  while (!blocker.blocked) changed_.Wait(mutex_);
}

void EndToEndService::Release(const std::string& key) {
  const base::MutexLock lock(mutex_);
  blockers_[key].released = true;
  changed_.NotifyAll();
}

std::string EndToEndService::AwaitOutcome(const std::string& key) {
  const base::MutexLock lock(mutex_);
  Blocker& blocker = blockers_[key];
  while (blocker.outcome.empty()) changed_.Wait(mutex_);
  return blocker.outcome;
}

int EndToEndService::blocks(const std::string& key) {
  const base::MutexLock lock(mutex_);
  return blockers_[key].calls;
}

void EndToEndService::WaitUntil(
    ServerContext* context, const std::string& key,
    const std::function<bool(const Blocker&)>& condition) {
  const base::MutexLock lock(mutex_);
  Blocker& blocker = blockers_[key];
  while (!condition(blocker) && !context->IsCancelled()) {
    // Polls IsCancelled() rather than using stop_token().
    changed_.WaitUntil(mutex_, base::Now() + absl::Milliseconds(2));
  }
}

absl::Status EndToEndService::AwaitBlocked(ServerContext* context,
                                           const Key* request,
                                           Nothing* /*reply*/) {
  WaitUntil(context, request->key(),
            [](const Blocker& blocker) { return blocker.blocked; });
  return absl::OkStatus();
}

absl::Status EndToEndService::Release(ServerContext* /*context*/,
                                      const Key* request, Nothing* /*reply*/) {
  Release(request->key());
  return absl::OkStatus();
}

absl::Status EndToEndService::AwaitOutcome(ServerContext* context,
                                           const Key* request, Outcome* reply) {
  WaitUntil(context, request->key(), [reply](const Blocker& blocker) {
    reply->set_outcome(blocker.outcome);
    return !blocker.outcome.empty();
  });
  return absl::OkStatus();
}

absl::Status EndToEndService::Describe(ServerContext* context,
                                       const Nothing* /*request*/,
                                       Description* reply) {
  return DoDescribe(context, reply);
}

InlineService::InlineService() { set_handler_mode(HandlerMode::kInline); }

absl::Status InlineService::Echo(ServerContext* context,
                                 const EchoRequest* request, EchoReply* reply) {
  return DoEcho(context, *request, reply);
}

absl::Status InlineService::Describe(ServerContext* context,
                                     const Nothing* /*request*/,
                                     Description* reply) {
  return DoDescribe(context, reply);
}

absl::Status TestStreams::List(ServerContext* context,
                               const ListRequest* request,
                               ServerWriter<Item>* writer) {
  if (list_) return list_(context, writer);
  for (uint64_t i = 0; i < request->count(); ++i) {
    Item item;
    item.set_number(i);
    item.set_payload(Pattern(request->payload_bytes(), i));
    const std::string attachment = Pattern(request->attachment_bytes(), i);
    if (!writer->Write(item,
                       absl::MakeConstSpan(
                           reinterpret_cast<const uint8_t*>(attachment.data()),
                           attachment.size()))) {
      return absl::AbortedError("nobody reads");
    }
  }
  return absl::OkStatus();
}

absl::Status TestStreams::Record(ServerContext* context,
                                 ServerReader<Item>* reader,
                                 Summary* response) {
  if (record_) return record_(context, reader);
  Item item;
  Buffer attachment;
  response->set_in_order(true);
  for (; reader->Read(&item, &attachment);
       response->set_count(response->count() + 1)) {
    if (item.number() != response->count()) response->set_in_order(false);
    response->set_payload_bytes(response->payload_bytes() +
                                item.payload().size());
    response->set_attachment_bytes(response->attachment_bytes() +
                                   attachment.size());
  }
  return absl::OkStatus();
}

absl::Status TestStreams::Chat(ServerContext* context,
                               ServerReaderWriter<Item, Item>* stream) {
  if (chat_) return chat_(context, stream);
  Item item;
  Buffer attachment;
  while (stream->Read(&item, &attachment)) {
    if (!stream->Write(item, attachment.span())) {
      return absl::AbortedError("nobody reads");
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::end_to_end
