#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/task.h"
#include "tests/integration/forms_fixture.h"
#include "tests/integration/streaming_fixture.h"

namespace verbena::end_to_end {
namespace {

void Keep(const Item& item, const Buffer& attachment, CallOutcome* outcome) {
  outcome->items.push_back(item);
  outcome->attachments.emplace_back(
      reinterpret_cast<const char*>(attachment.span().data()),
      attachment.size());
}

class BlockingClient final : public FormClient {
 public:
  using FormClient::FormClient;

  absl::Status Echo(ClientContext* context, const EchoRequest& request,
                    EchoReply* reply) override {
    return inline_stub().Echo(context, request, reply);
  }
  CallOutcome List(ClientContext* context,
                   const ListRequest& request) override {
    CallOutcome outcome;
    const auto reader = stub().List(context, request);
    Item item;
    Buffer attachment;
    while (reader->Read(&item, &attachment)) Keep(item, attachment, &outcome);
    outcome.status = reader->Finish();
    return outcome;
  }
  CallOutcome Record(ClientContext* context, const std::vector<Item>& items,
                     const std::string& attachment) override {
    CallOutcome outcome;
    const auto writer = stub().Record(context, &outcome.summary);
    for (const Item& item : items) {
      if (!writer->Write(item, Bytes(attachment))) break;
    }
    outcome.status = writer->Finish();
    return outcome;
  }
  CallOutcome Chat(ClientContext* context, const std::vector<Item>& items,
                   const std::string& attachment) override {
    CallOutcome outcome;
    const auto stream = stub().Chat(context);
    for (const Item& item : items) {
      Item answer;
      Buffer beside;
      if (!stream->Write(item, Bytes(attachment)) ||
          !stream->Read(&answer, &beside)) {
        break;
      }
      Keep(answer, beside, &outcome);
    }
    stream->WritesDone();
    outcome.status = stream->Finish();
    return outcome;
  }
};

// A reactor that keeps what came of its call.
template <typename Reactor>
class Kept : public Reactor {
 public:
  CallOutcome Wait() {
    this->StartCall();
    done_.Wait();
    return std::move(outcome_);
  }
  void OnDone(const absl::Status& status) override {
    // Copies the text. A copy of the status would share it by a reference count
    // in Debian's abseil, which is not built for TSan.
    outcome_.status = absl::Status(status.code(), status.message());
    done_.Done();
  }

 protected:
  CallOutcome outcome_;

 private:
  Countdown done_{1};
};

class ListReactor final : public Kept<ClientReadReactor<Item>> {
 public:
  ListReactor() { StartRead(&item_, &attachment_); }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    Keep(item_, attachment_, &outcome_);
    StartRead(&item_, &attachment_);
  }

 private:
  Item item_;
  Buffer attachment_;
};

class RecordReactor final : public Kept<ClientWriteReactor<Item>> {
 public:
  RecordReactor(const std::vector<Item>& items, const std::string& attachment)
      : items_(items), attachment_(attachment) {
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (ok && written_ < items_.size()) Next();
  }
  Summary* summary() { return &outcome_.summary; }

 private:
  void Next() {
    if (items_.empty()) return StartWritesDone();
    const Item* const item = &items_[written_++];
    if (written_ < items_.size()) {
      StartWrite(item, Bytes(attachment_));
    } else {
      StartWriteLast(item, Bytes(attachment_));
    }
  }

  const std::vector<Item>& items_;
  const std::string& attachment_;
  size_t written_ = 0;
};

class ChatReactor final : public Kept<ClientBidiReactor<Item, Item>> {
 public:
  ChatReactor(const std::vector<Item>& items, const std::string& attachment)
      : items_(items), attachment_(attachment) {
    Next();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    Keep(answer_, beside_, &outcome_);
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&answer_, &beside_);
  }

 private:
  void Next() {
    if (outcome_.items.size() == items_.size()) return StartWritesDone();
    StartWrite(&items_[outcome_.items.size()], Bytes(attachment_));
  }

  const std::vector<Item>& items_;
  const std::string& attachment_;
  Item answer_;
  Buffer beside_;
};

class ReactorClient final : public FormClient {
 public:
  using FormClient::FormClient;

  absl::Status Echo(ClientContext* context, const EchoRequest& request,
                    EchoReply* reply) override {
    Kept<ClientUnaryReactor> reactor;
    inline_stub().async()->Echo(context, &request, reply, &reactor);
    return reactor.Wait().status;
  }
  CallOutcome List(ClientContext* context,
                   const ListRequest& request) override {
    ListReactor reactor;
    stub().async()->List(context, &request, &reactor);
    return reactor.Wait();
  }
  CallOutcome Record(ClientContext* context, const std::vector<Item>& items,
                     const std::string& attachment) override {
    RecordReactor reactor(items, attachment);
    stub().async()->Record(context, reactor.summary(), &reactor);
    return reactor.Wait();
  }
  CallOutcome Chat(ClientContext* context, const std::vector<Item>& items,
                   const std::string& attachment) override {
    ChatReactor reactor(items, attachment);
    stub().async()->Chat(context, &reactor);
    return reactor.Wait();
  }
};

class CoroutineClient final : public FormClient {
 public:
  using FormClient::FormClient;

  absl::Status Echo(ClientContext* context, const EchoRequest& request,
                    EchoReply* reply) override {
    return SyncWait(DoEcho(context, request, reply));
  }
  CallOutcome List(ClientContext* context,
                   const ListRequest& request) override {
    return SyncWait(DoList(context, request));
  }
  CallOutcome Record(ClientContext* context, const std::vector<Item>& items,
                     const std::string& attachment) override {
    return SyncWait(DoRecord(context, items, attachment));
  }
  CallOutcome Chat(ClientContext* context, const std::vector<Item>& items,
                   const std::string& attachment) override {
    return SyncWait(DoChat(context, items, attachment));
  }

 private:
  Task<absl::Status> DoEcho(ClientContext* context, const EchoRequest& request,
                            EchoReply* reply) {
    co_return co_await inline_stub().co()->Echo(context, request, reply);
  }
  Task<CallOutcome> DoList(ClientContext* context, const ListRequest& request) {
    CallOutcome outcome;
    auto reader = stub().co()->List(context, request);
    Item item;
    Buffer attachment;
    while (co_await reader.Read(&item, &attachment)) {
      Keep(item, attachment, &outcome);
    }
    outcome.status = co_await reader.Finish();
    co_return outcome;
  }
  Task<CallOutcome> DoRecord(ClientContext* context,
                             const std::vector<Item>& items,
                             const std::string& attachment) {
    CallOutcome outcome;
    auto writer = stub().co()->Record(context, &outcome.summary);
    for (const Item& item : items) {
      if (!co_await writer.Write(item, Bytes(attachment))) break;
    }
    outcome.status = co_await writer.Finish();
    co_return outcome;
  }
  Task<CallOutcome> DoChat(ClientContext* context,
                           const std::vector<Item>& items,
                           const std::string& attachment) {
    CallOutcome outcome;
    auto stream = stub().co()->Chat(context);
    for (const Item& item : items) {
      Item answer;
      Buffer beside;
      if (!co_await stream.Write(item, Bytes(attachment))) break;
      if (!co_await stream.Read(&answer, &beside)) break;
      Keep(answer, beside, &outcome);
    }
    stream.WritesDone();
    outcome.status = co_await stream.Finish();
    co_return outcome;
  }
};

}  // namespace

std::string NameOf(Form form) {
  switch (form) {
    case Form::kBlocking:
      return "Blocking";
    case Form::kReactor:
      return "Reactor";
    default:
      return "Coroutine";
  }
}

std::unique_ptr<FormClient> FormClient::New(
    Form form, const std::shared_ptr<Channel>& channel) {
  switch (form) {
    case Form::kBlocking:
      return std::make_unique<BlockingClient>(channel);
    case Form::kReactor:
      return std::make_unique<ReactorClient>(channel);
    default:
      return std::make_unique<CoroutineClient>(channel);
  }
}

}  // namespace verbena::end_to_end
