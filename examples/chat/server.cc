// Serves chat.Chat until it gets SIGINT or SIGTERM.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "examples/chat/chat.verbena.h"
#include "examples/common/serve.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50054",
          "address and port to serve on; port 0 takes any free one");

namespace chat {
namespace {

// Lines that may wait for a member who does not read.
constexpr size_t kWaitingMax = 1000;

// A member of the chat, with the lines that were not sent to the member yet.
class Member {
 public:
  void Hear(const Line& line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() == kWaitingMax) {
      too_slow_ = true;
      left_ = true;
    }
    if (left_) return;
    waiting_.push_back(line);
    changed_.notify_one();
  }

  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ = true;
    changed_.notify_one();
  }

  // Waits for the next line. Returns false if the member has left and no more
  // lines wait.
  bool Next(Line* line) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return left_ || !waiting_.empty(); });
    if (waiting_.empty()) return false;
    *line = waiting_.front();
    waiting_.pop_front();
    return true;
  }

  bool too_slow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return too_slow_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Line> waiting_;
  bool left_ = false;
  bool too_slow_ = false;
};

class ChatService final : public Chat::Service {
  absl::Status Join(verbena::ServerContext* /*context*/,
                    verbena::ServerReaderWriter<Line, Line>* stream) override {
    Line hello;
    if (!stream->Read(&hello) || hello.who().empty()) {
      return absl::InvalidArgumentError("who is it? `who` is empty");
    }
    Member member;
    Enter(&member, hello.who());
    // A stream may be written by one thread while another one reads it. Each
    // client has a writer thread, so a client that does not read delays nobody.
    std::thread writer([&member, stream] {
      Line line;
      while (member.Next(&line) && stream->Write(line)) {
      }
      stream->StopReading();
    });
    Line line;
    while (stream->Read(&line)) {
      line.set_who(hello.who());
      Say(line);
    }
    Leave(&member, hello.who());
    writer.join();
    return member.too_slow() ? absl::ResourceExhaustedError("too slow a reader")
                             : absl::OkStatus();
  }

  void Enter(Member* member, const std::string& who) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      room_.insert(member);
    }
    Announce(who + " has come");
  }

  void Leave(Member* member, const std::string& who) {
    Announce(who + " has left");
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      room_.erase(member);
    }
    member->Leave();
  }

  void Announce(const std::string& text) {
    Line line;
    line.set_text(text);
    Say(line);
  }

  void Say(const Line& line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Member* member : room_) member->Hear(line);
  }

  std::mutex mutex_;
  std::set<Member*> room_;  // Guarded by mutex_.
};

}  // namespace
}  // namespace chat

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves chat.Chat.");
  absl::ParseCommandLine(argc, argv);

  chat::ChatService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  return examples::Serve(builder);
}
