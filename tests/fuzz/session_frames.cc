#include "tests/fuzz/session_frames.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/string_view.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

template <typename Header>
std::string Text(const Header& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

FrameHeader Common(FrameType type) {
  FrameHeader header = {};
  header.type = type;
  header.header_bytes = HeaderBytes(type);
  return header;
}

RequestHeader TakeRequest(fuzz::FuzzInput& input) {
  RequestHeader request = {};
  request.frame = Common(FrameType::kRequest);
  constexpr uint8_t kOthers = kFlowFlags | kFlagContinued;
  request.frame.flags = input.Take<uint8_t>() & static_cast<uint8_t>(~kOthers);
  request.method_id = input.Below(8);
  request.timeout_us = input.Bool() ? kNoTimeout : input.Take<uint16_t>();
  request.metadata_bytes = static_cast<uint16_t>(input.Below(40));
  if ((request.frame.flags & kFlagStream) != 0) {
    request.frame.flags = kFlagStream;
    request.frame.body_bytes = request.metadata_bytes;
    return request;
  }
  request.message_bytes = TakeLength(input);
  request.attachment_bytes = input.Bool() ? TakeLength(input) : 0;
  request.frame.body_bytes = request.metadata_bytes;
  if ((request.frame.flags & kFlagMessageInArena) != 0) {
    request.message_offset = input.Take<uint16_t>();
    request.message_arena = static_cast<uint16_t>(input.Below(8) / 6);
  } else {
    request.frame.body_bytes += request.message_bytes;
  }
  if ((request.frame.flags & kFlagAttachmentInArena) != 0) {
    request.attachment_offset = input.Take<uint16_t>();
    request.attachment_arena = static_cast<uint16_t>(input.Below(8) / 6);
  } else {
    request.frame.body_bytes += request.attachment_bytes;
  }
  if ((request.frame.flags & kFlagReplyLease) != 0) {
    request.reply_offset = input.Take<uint16_t>();
    request.reply_bytes = TakeLength(input);
    request.reply_arena = static_cast<uint16_t>(input.Below(8) / 6);
  }
  if ((request.frame.flags & kFlagLeaseKey) != 0) {
    request.frame.body_bytes += sizeof(LeaseKey);
  }
  return request;
}

ResponseHeader TakeResponse(fuzz::FuzzInput& input) {
  ResponseHeader response = {};
  response.frame = Common(FrameType::kResponse);
  response.frame.flags =
      input.Take<uint8_t>() & (kFlagMessageInArena | kFlagAttachmentInArena);
  response.code = input.Bool() ? 0 : input.Below(17);
  if (response.code != 0) {
    response.status_message_bytes = static_cast<uint16_t>(input.Below(40));
  }
  response.metadata_bytes = static_cast<uint16_t>(input.Below(40));
  response.message_bytes = TakeLength(input);
  response.attachment_bytes = input.Bool() ? TakeLength(input) : 0;
  response.frame.body_bytes =
      response.status_message_bytes + response.metadata_bytes;
  if ((response.frame.flags & kFlagMessageInArena) == 0) {
    response.frame.body_bytes += response.message_bytes;
  }
  if ((response.frame.flags & kFlagAttachmentInArena) == 0) {
    response.frame.body_bytes += response.attachment_bytes;
  }
  return response;
}

ArenaHeader TakeArena(fuzz::FuzzInput& input, const ArenaDescriptor& arena) {
  ArenaHeader header = {};
  header.frame = Common(FrameType::kArena);
  header.index = static_cast<uint16_t>(input.Below(4));
  if (input.Below(3) == 0) return header;  // Withdrawn.
  header.bytes = std::max<uint64_t>(1, TakeLength(input));
  header.address = arena.address + input.Take<uint16_t>();
  header.rkey = arena.rkey + input.Below(16) / 15;
  return header;
}

// The header of a frame of `type`, whole but for the call and the body.
std::string TakeHeader(fuzz::FuzzInput& input, FrameType type,
                       const FrameSubjects& subjects) {
  switch (type) {
    case FrameType::kRequest:
      return Text(TakeRequest(input));
    case FrameType::kResponse:
      return Text(TakeResponse(input));
    case FrameType::kResponsePending:
      return Text(ResponsePendingHeader{Common(type), TakeLength(input),
                                        TakeLength(input)});
    case FrameType::kLease:
      return Text(LeaseHeader{
          Common(type), input.Take<uint16_t>(), TakeLength(input),
          static_cast<uint16_t>(input.Below(8) / 6), 0, input.Below(2)});
    case FrameType::kArena:
      return Text(TakeArena(input, subjects.arena));
    case FrameType::kReturn:
      return Text(ReturnHeader{Common(type), input.Below(80), 0});
    case FrameType::kWindow:
      return Text(WindowHeader{
          Common(type),
          kStreamWindowBytes + input.Take<uint32_t>() - input.Below(2),
          subjects.message_limit});
    case FrameType::kData: {
      FrameHeader header = Common(type);
      header.flags = input.Below(4) == 0 ? kFlagLastData : 0;
      header.body_bytes = TakeLength(input) % kBufferBytes;
      return Text(header);
    }
    case FrameType::kMessage: {
      LongMessageHeader header = {};
      header.frame = Common(type);
      header.frame.flags = static_cast<uint8_t>(1 + input.Below(3));
      uint32_t* const inline_bytes = header.frame.flags == kFlagMessageInArena
                                         ? &header.attachment_bytes
                                         : &header.message_bytes;
      header.message_bytes = TakeLength(input);
      header.attachment_bytes = TakeLength(input);
      if (header.frame.flags !=
          (kFlagMessageInArena | kFlagAttachmentInArena)) {
        *inline_bytes %= kBufferBytes - sizeof(header);
        header.frame.body_bytes = *inline_bytes;
      }
      if ((header.frame.flags & kFlagMessageInArena) != 0) {
        header.message_offset = input.Take<uint16_t>();
      }
      if ((header.frame.flags & kFlagAttachmentInArena) != 0) {
        header.attachment_offset = input.Take<uint16_t>();
      }
      return Text(header);
    }
    case FrameType::kMetadata: {
      FrameHeader header = Common(type);
      header.flags =
          input.Take<uint8_t>() & (kFlagMetadataEnd | kFlagInitialMetadata);
      header.body_bytes = TakeLength(input) % kBufferBytes;
      return Text(header);
    }
    default: {
      FrameHeader header = Common(type);
      if (type == FrameType::kHello || type == FrameType::kWelcome ||
          type == FrameType::kBye || type == FrameType::kContinuation) {
        header.body_bytes = TakeLength(input) % kBufferBytes;
      }
      return Text(header);
    }
  }
}

bool IsOfACall(FrameType type) {
  return type == FrameType::kRequest || type == FrameType::kResponse ||
         type == FrameType::kResponsePending || type == FrameType::kLease ||
         type == FrameType::kCancel || type == FrameType::kContinuation ||
         type == FrameType::kData || type == FrameType::kWindow ||
         type == FrameType::kMetadata || type == FrameType::kMessage;
}

// Inputs of the corpus that are older than a type keep their meaning: the first
// draw has the values that it had then, and 0 leads to newer types.
FrameType TakeType(fuzz::FuzzInput& input) {
  constexpr uint32_t kWithoutStreams = 17;
  const uint32_t type = input.Below(kWithoutStreams);
  if (type != 0) return static_cast<FrameType>(type);
  constexpr FrameType kStreams[] = {FrameType{0}, FrameType::kData,
                                    FrameType::kWindow};
  const FrameType other = kStreams[input.Below(3)];
  if (other != FrameType{0}) return other;
  constexpr FrameType kLatest[] = {FrameType{0}, FrameType::kMetadata};
  const FrameType latest = kLatest[input.Below(2)];
  if (latest != FrameType{0}) return latest;
  return input.Below(2) == 0 ? FrameType{0} : FrameType::kMessage;
}

}  // namespace

uint32_t LeaseKeyOf(const std::string& frame) {
  if ((HeaderOf<FrameHeader>(frame).flags & kFlagLeaseKey) == 0) return 0;
  constexpr size_t kAt = sizeof(RequestHeader);
  return frame.size() < kAt ? 0 : HeaderOf<LeaseKey>(frame.substr(kAt)).rkey;
}

uint32_t TakeLength(fuzz::FuzzInput& input) {
  switch (input.Below(8)) {
    case 0:
      return input.Take<uint16_t>();
    case 1:
      return input.Take<uint32_t>() % (1 << 21);
    case 2:
      return 16 * input.Take<uint16_t>() % kBufferBytes;
    default:
      return input.Take<uint8_t>();
  }
}

std::vector<std::string> TakeFrames(fuzz::FuzzInput& input,
                                    const FrameSubjects& subjects) {
  const FrameType type =
      subjects.type == FrameType{0} ? TakeType(input) : subjects.type;
  std::string frame = TakeHeader(input, type, subjects);
  FrameHeader header = HeaderOf<FrameHeader>(frame);
  if (IsOfACall(type)) {
    header.call_id =
        subjects.call_ids[input.Take<uint8_t>() % subjects.call_ids.size()];
  }
  if (input.Below(4) == 0) header.flags |= kFlagCreditsWanted;
  SetHeader(header, &frame);
  // Longer ones are refused by their header.
  const size_t body_bytes =
      std::min<size_t>(header.body_bytes, kContinuedBytesMax + 1);
  std::string body(
      fuzz::AsText(input.Bytes(std::min<size_t>(body_bytes, input.Below(64)))));
  // Zeros are a row of empty messages of a stream. Other bodies are letters.
  body.resize(body_bytes, type == FrameType::kData ? '\0' : 'b');
  if (type == FrameType::kRequest && (header.flags & kFlagLeaseKey) != 0) {
    constexpr size_t kZero = offsetof(LeaseKey, zero);
    if (body_bytes >= sizeof(LeaseKey)) body.replace(kZero, 4, 4, '\0');
  }
  const size_t room = subjects.frame_bytes_max - frame.size();
  if (body.size() <= room) {
    frame += body;
    return {frame};
  }
  header.flags |= kFlagContinued;
  SetHeader(header, &frame);
  std::vector<std::string> frames = {frame + body.substr(0, room)};
  for (size_t at = room; at < body.size();) {
    FrameHeader next = Common(FrameType::kContinuation);
    next.call_id = header.call_id;
    const std::string part =
        body.substr(at, subjects.frame_bytes_max - sizeof(next));
    next.body_bytes = static_cast<uint32_t>(part.size());
    frames.push_back(Text(next) + part);
    at += part.size();
  }
  return frames;
}

void TakeDamage(fuzz::FuzzInput& input, std::string* frame) {
  const uint32_t kind = input.Below(16);
  if (kind == 0) {
    frame->resize(input.Take<uint16_t>() % (kBufferBytes + 64), 'r');
  } else if (kind < 4 && !frame->empty()) {
    for (uint32_t i = 0; i < kind; ++i) {
      (*frame)[input.Take<uint8_t>() % std::min<size_t>(frame->size(), 64)] =
          static_cast<char>(input.Take<uint8_t>());
    }
  }
}

}  // namespace verbena::transport
