#include "tests/hostile/requests.h"

#include <cstring>
#include <vector>

#include "transport/wire/frame.h"

namespace verbena::hostile {

using transport::FrameHeader;
using transport::FrameText;
using transport::MessageHeader;
using transport::RawPeer;
using transport::RequestHeader;

// Field 2 alone.
std::string AskFor(uint64_t bytes) {
  std::string text = "\x10";
  for (; bytes >= 0x80; bytes >>= 7) {
    text += static_cast<char>((bytes & 0x7f) | 0x80);
  }
  return text + static_cast<char>(bytes);
}

std::string CallOf(const RawPeer& raw, uint32_t call, uint64_t method,
                   const std::string& message) {
  RequestHeader request =
      raw.InlineRequest(call, method, static_cast<uint32_t>(message.size()));
  request.frame.flags |= transport::kFlagCreditsWanted;
  return FrameText(request, message);
}

std::string EchoOf(const RawPeer& raw, uint32_t call, uint64_t reply_bytes) {
  return CallOf(raw, call, kEcho, AskFor(reply_bytes));
}

std::string StreamOf(const RawPeer& raw, uint32_t call, uint64_t method) {
  RequestHeader request = raw.InlineRequest(call, method, 0);
  request.frame.flags |= transport::kFlagStream | transport::kFlagCreditsWanted;
  return FrameText(request);
}

std::string Announced(uint32_t bytes, const std::string& message) {
  const MessageHeader header = {bytes, 0};
  std::string text(sizeof(header), '\0');
  std::memcpy(text.data(), &header, sizeof(header));
  return text + message;
}

std::string HalfARequest(const RawPeer& raw) {
  RequestHeader request = raw.InlineRequest(0, kEcho, 16000);
  request.frame.flags = transport::kFlagContinued;
  std::string text = FrameText(request, std::string(8000, 'x'));
  FrameHeader header = transport::HeaderOf<FrameHeader>(text);
  header.body_bytes = 16000;
  text.replace(0, sizeof(header), reinterpret_cast<const char*>(&header),
               sizeof(header));
  return text;
}

void AskInTrains(RawPeer& raw, uint32_t trains) {
  const std::string message = AskFor(5000);
  for (uint32_t train = 0; train < trains; ++train) {
    std::vector<std::string> frames;
    for (uint32_t call = 0; call < transport::kTrainFrames; ++call) {
      RequestHeader request =
          raw.InlineRequest(train * transport::kTrainFrames + call, kEcho,
                            static_cast<uint32_t>(message.size()));
      request.frame.flags |= transport::kFlagCreditsWanted;
      frames.push_back(
          FrameText(call == 0 ? request : Behind(request), message));
    }
    if (!raw.Send(transport::TrainText(frames)).ok()) return;
  }
}

std::string Random(size_t bytes, uint32_t& seed) {
  std::string text(bytes, '\0');
  for (char& byte : text) {
    byte = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
  }
  return text;
}

}  // namespace verbena::hostile
