// A test service that is written once for both libraries. The type `Side` is
// GrpcSide or VerbenaSide, which have equal names for their library's parts.

#ifndef VERBENA_TOOLS_GATEWAY_PROBE_SERVICE_H_
#define VERBENA_TOOLS_GATEWAY_PROBE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/status_details.h"
#include "tools/gateway/probe.pb.h"

namespace verbena::gateway::test {

// Returns the status of every call whose text is "fail". Its detail is a Note,
// a type that both sides know.
inline absl::Status Failure() {
  absl::Status status = absl::FailedPreconditionError("not now: 50 % \n done");
  Note detail;
  detail.set_text(std::string("\0\xff!", 3));
  AddStatusDetail(&status, detail);
  return status;
}

template <typename Side>
class ProbeService final : public Side::Service {
 public:
  // Copies "x-sent" to the initial metadata as "x-initial", and "x-sent-bin" to
  // the trailing as "x-trailing-bin". "fail" fails.
  typename Side::Status Echo(typename Side::ServerContext* context,
                             const Note* request, Note* reply) override {
    ++calls;
    Begin(context);
    *reply = *request;
    return End(request->text());
  }

  typename Side::Status Collect(typename Side::ServerContext* context,
                                typename Side::template Reader<Note>* reader,
                                Note* reply) override {
    ++calls;
    Begin(context);
    Note note;
    while (reader->Read(&note)) {
      *reply->mutable_text() += note.text();
      reply->set_count(reply->count() + 1);
    }
    return End(reply->text());
  }

  typename Side::Status Spread(
      typename Side::ServerContext* context, const Note* request,
      typename Side::template Writer<Note>* writer) override {
    ++calls;
    Begin(context);
    Note note = *request;
    for (int64_t i = 0; i < request->count(); ++i) {
      note.set_count(i);
      if (!writer->Write(note)) break;
      written.store(i + 1);
    }
    return End(request->text());
  }

  // Sends each note back, and says at the end of a "wait" whether it was
  // cancelled. After "fail" it reads no more.
  typename Side::Status Chat(
      typename Side::ServerContext* context,
      typename Side::template ReaderWriter<Note>* stream) override {
    ++calls;
    Begin(context);
    Note note;
    while (stream->Read(&note)) {
      if (note.text() == "fail") return End(note.text());
      stream->Write(note);
    }
    if (note.text() == "wait") {
      cancelled.set_value(Side::WasCancelled(*context));
    }
    return End(note.text());
  }

  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> written{0};      // By Spread().
  std::promise<bool> cancelled;         // By Chat(), once.
  std::atomic<double> seconds_left{0};  // To the deadline.

 private:
  void Begin(typename Side::ServerContext* context) {
    seconds_left =
        absl::ToDoubleSeconds(Side::Deadline(*context) - absl::Now());
    const auto& sent = context->client_metadata();
    for (auto pair = sent.begin(); pair != sent.end(); ++pair) {
      const std::string key(pair->first.data(), pair->first.size());
      const std::string value(pair->second.data(), pair->second.size());
      if (key == "x-sent") context->AddInitialMetadata("x-initial", value);
      if (key == "x-sent-bin") {
        context->AddTrailingMetadata("x-trailing-bin", value);
      }
    }
  }

  static typename Side::Status End(const std::string& text) {
    return Side::FromAbsl(text == "fail" ? Failure() : absl::OkStatus());
  }
};

}  // namespace verbena::gateway::test

#endif  // VERBENA_TOOLS_GATEWAY_PROBE_SERVICE_H_
