// Reactors that handle streams, for Verbena and for gRPC, whose reactors have
// the same names.

#ifndef VERBENA_TOOLS_PEER_BENCH_ECHO_REACTORS_H_
#define VERBENA_TOOLS_PEER_BENCH_ECHO_REACTORS_H_

namespace verbena::peers {

// Sends each message back. `Base` is a ServerBidiReactor.
template <typename Base, typename Message, typename Status>
class ChatReactor final : public Base {
 public:
  ChatReactor() { this->StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (ok) return this->StartWrite(&message_);
    this->Finish(Status());
  }
  // If the write failed, the read fails too, and ends the call.
  void OnWriteDone(bool /*ok*/) override { this->StartRead(&message_); }
  void OnDone() override { delete this; }

 private:
  Message message_;
};

// Sends the request until a write fails. `Base` is a ServerWriteReactor.
template <typename Base, typename Message, typename Status>
class SendReactor final : public Base {
 public:
  // `message` must live until OnDone().
  explicit SendReactor(const Message* message) : message_(message) {
    this->StartWrite(message_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) return this->StartWrite(message_);
    this->Finish(Status());
  }
  void OnDone() override { delete this; }

 private:
  const Message* const message_;
};

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_ECHO_REACTORS_H_
