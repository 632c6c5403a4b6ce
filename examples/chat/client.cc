// Joins a chat.Chat: says what is typed, and prints what is said.

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "examples/chat/chat.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_stream.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50054", "address and port to call");
ABSL_FLAG(std::string, name, "somebody", "your name in the chat");

namespace {

using Stream = verbena::ClientReaderWriter<chat::Line, chat::Line>;

void SayWhatIsTyped(Stream& stream) {
  chat::Line line;
  line.set_who(absl::GetFlag(FLAGS_name));
  stream.Write(line);
  for (std::string text; std::getline(std::cin, text);) {
    line.set_text(text);
    if (!stream.Write(line)) return;
  }
  stream.WritesDone();
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Joins a chat.Chat.");
  absl::ParseCommandLine(argc, argv);

  auto stub =
      chat::Chat::NewStub(verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  // The call has no deadline, because a chat takes as long as people talk.
  verbena::ClientContext context;
  auto stream = stub->Join(&context);
  std::thread typist([&stream] { SayWhatIsTyped(*stream); });
  chat::Line line;
  while (stream->Read(&line)) {
    // Escapes the text, which may contain control sequences of the terminal.
    if (!line.who().empty()) {
      std::cout << absl::Utf8SafeCHexEscape(line.who()) << ": ";
    }
    std::cout << absl::Utf8SafeCHexEscape(line.text()) << std::endl;
  }
  const absl::Status status = stream->Finish();
  if (!status.ok()) {
    std::cerr << "the chat is over: " << status << std::endl;
    // The typist's thread may be waiting for the keyboard, and cannot be woken,
    // so the program ends without joining it.
    std::_Exit(1);
  }
  typist.join();
  return 0;
}
