#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "tests/integration/forms_fixture.h"

namespace verbena::end_to_end {
namespace {

constexpr uint64_t kUnlucky = 13;

absl::Status Unlucky() { return absl::AbortedError("unlucky"); }

absl::Span<const uint8_t> AsBytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size());
}

Item ListedItem(const ListRequest& request, uint64_t number) {
  Item item;
  item.set_number(number);
  item.set_payload(Pattern(request.payload_bytes(), number));
  return item;
}

// Counts what a Record gets.
void Count(const Item& item, const Buffer& attachment, Summary* summary) {
  if (summary->count() == 0) summary->set_in_order(true);
  if (item.number() != summary->count()) summary->set_in_order(false);
  summary->set_count(summary->count() + 1);
  summary->set_payload_bytes(summary->payload_bytes() + item.payload().size());
  summary->set_attachment_bytes(summary->attachment_bytes() +
                                attachment.size());
}

// --- Blocking ---

class BlockingStreams final : public StreamService::Service {
 public:
  absl::Status List(ServerContext* /*context*/, const ListRequest* request,
                    ServerWriter<Item>* writer) override {
    for (uint64_t i = 0; i < request->count(); ++i) {
      const std::string attachment = Pattern(request->attachment_bytes(), i);
      if (!writer->Write(ListedItem(*request, i), AsBytes(attachment))) break;
    }
    return absl::OkStatus();
  }
  absl::Status Record(ServerContext* /*context*/, ServerReader<Item>* reader,
                      Summary* response) override {
    Item item;
    Buffer attachment;
    while (reader->Read(&item, &attachment)) Count(item, attachment, response);
    return absl::OkStatus();
  }
  absl::Status Chat(ServerContext* context,
                    ServerReaderWriter<Item, Item>* stream) override {
    context->AddInitialMetadata("form", "blocking");
    Item item;
    Buffer attachment;
    while (stream->Read(&item, &attachment)) {
      if (item.number() == kUnlucky) return Unlucky();
      if (!stream->Write(item, attachment.span())) break;
    }
    return absl::OkStatus();
  }
};

// --- With reactors ---

class ReactorInline final : public Inline::CallbackService {
 public:
  ServerUnaryReactor* Echo(CallbackServerContext* context,
                           const EchoRequest* request,
                           EchoReply* reply) override {
    context->set_response_attachment(context->TakeRequestAttachment());
    reply->set_payload(request->payload());
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(absl::OkStatus());
    return reactor;
  }
};

class Lister final : public ServerWriteReactor<Item> {
 public:
  explicit Lister(const ListRequest* request) : request_(*request) { Next(); }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(absl::AbortedError("nobody reads"));
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    const bool last = number_ + 1 >= request_.count();
    if (number_ == request_.count()) return Finish(absl::OkStatus());
    item_ = ListedItem(request_, number_);
    attachment_ = Pattern(request_.attachment_bytes(), number_++);
    if (last) {
      StartWriteAndFinish(&item_, absl::OkStatus(), AsBytes(attachment_));
    } else {
      StartWrite(&item_, AsBytes(attachment_));
    }
  }

  const ListRequest& request_;
  uint64_t number_ = 0;
  Item item_;
  std::string attachment_;
};

class Recorder final : public ServerReadReactor<Item> {
 public:
  explicit Recorder(Summary* summary) : summary_(*summary) {
    StartRead(&item_, &attachment_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    Count(item_, attachment_, &summary_);
    StartRead(&item_, &attachment_);
  }
  void OnDone() override { delete this; }

 private:
  Summary& summary_;
  Item item_;
  Buffer attachment_;
};

class Chatter final : public ServerBidiReactor<Item, Item> {
 public:
  Chatter() { StartRead(&item_, &attachment_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    if (item_.number() == kUnlucky) return Finish(Unlucky());
    StartWrite(&item_, attachment_.span());
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    StartRead(&item_, &attachment_);
  }
  void OnDone() override { delete this; }

 private:
  Item item_;
  Buffer attachment_;
};

class ReactorStreams final : public StreamService::CallbackService {
 public:
  ServerWriteReactor<Item>* List(CallbackServerContext* /*context*/,
                                 const ListRequest* request) override {
    return new Lister(request);
  }
  ServerReadReactor<Item>* Record(CallbackServerContext* /*context*/,
                                  Summary* response) override {
    return new Recorder(response);
  }
  ServerBidiReactor<Item, Item>* Chat(CallbackServerContext* context) override {
    context->AddInitialMetadata("form", "reactor");
    return new Chatter;
  }
};

// --- As coroutines ---

class CoroutineInline final : public Inline::CoroutineService {
 public:
  Task<absl::Status> Echo(ServerContext* context, const EchoRequest* request,
                          EchoReply* reply) override {
    context->set_response_attachment(context->TakeRequestAttachment());
    reply->set_payload(request->payload());
    co_return absl::OkStatus();
  }
};

class CoroutineStreams final : public StreamService::CoroutineService {
 public:
  Task<absl::Status> List(ServerContext* /*context*/,
                          const ListRequest* request,
                          CoroutineServerWriter<Item>* writer) override {
    for (uint64_t i = 0; i < request->count(); ++i) {
      const Item item = ListedItem(*request, i);
      const std::string attachment = Pattern(request->attachment_bytes(), i);
      if (!co_await writer->Write(item, AsBytes(attachment))) break;
    }
    co_return absl::OkStatus();
  }
  Task<absl::Status> Record(ServerContext* /*context*/,
                            CoroutineServerReader<Item>* reader,
                            Summary* response) override {
    Item item;
    Buffer attachment;
    while (co_await reader->Read(&item, &attachment)) {
      Count(item, attachment, response);
    }
    co_return absl::OkStatus();
  }
  Task<absl::Status> Chat(
      ServerContext* context,
      CoroutineServerReaderWriter<Item, Item>* stream) override {
    context->AddInitialMetadata("form", "coroutine");
    Item item;
    Buffer attachment;
    while (co_await stream->Read(&item, &attachment)) {
      if (item.number() == kUnlucky) co_return Unlucky();
      if (!co_await stream->Write(item, attachment.span())) break;
    }
    co_return absl::OkStatus();
  }
};

}  // namespace

FormServices::FormServices(Form form) {
  switch (form) {
    case Form::kBlocking:
      inline_ = std::make_unique<InlineService>();
      streams_ = std::make_unique<BlockingStreams>();
      break;
    case Form::kReactor:
      inline_ = std::make_unique<ReactorInline>();
      streams_ = std::make_unique<ReactorStreams>();
      break;
    case Form::kCoroutine:
      inline_ = std::make_unique<CoroutineInline>();
      streams_ = std::make_unique<CoroutineStreams>();
      break;
  }
}

void FormServices::Register(ServerBuilder* builder) {
  builder->RegisterService(inline_.get()).RegisterService(streams_.get());
}

}  // namespace verbena::end_to_end
