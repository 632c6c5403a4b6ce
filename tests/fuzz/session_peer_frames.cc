// SessionPeer: what a frame needs beside its bytes, and what frames of the
// other side say.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/fuzz/session_peer.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"

namespace verbena::transport {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Whether frames of this type may have no checksum, because they go before the
// WELCOME or cross it.
bool MayPrecedeSums(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kWelcome ||
         type == FrameType::kCredentials || type == FrameType::kGrant ||
         type == FrameType::kPing || type == FrameType::kPong ||
         type == FrameType::kGoAway || type == FrameType::kBye;
}

bool IsCall(FrameType type) {
  return type == FrameType::kRequest || type == FrameType::kResponse;
}

// Where the next frame of a train begins.
size_t AlignFrame(size_t bytes) {
  return (bytes + kTrainAlignment - 1) / kTrainAlignment * kTrainAlignment;
}

// Mostly the right ones.
void AppendSums(fuzz::FuzzInput& input, PartSums parts, std::string* frame) {
  const uint32_t kind = input.Below(32);
  if (kind == 31) return;
  if (kind == 30) ++parts.message;
  if (kind == 29) ++parts.attachment;
  const auto bytes = static_cast<uint32_t>(frame->size());
  frame->resize(bytes + sizeof(FrameSums));
  AppendSums(reinterpret_cast<uint8_t*>(frame->data()), bytes, parts);
  if (kind == 28) ++frame->back();
}

}  // namespace

void SessionPeer::Greet(FrameType type) {
  std::string body;
  if (setup_.peer_wants_sums) {
    body = EncodeOptions({{kOptionChecksum, kChecksumKind}});
  }
  if (setup_.uses_trains) body += EncodeOptions({{kOptionTrains, ""}});
  FrameHeader header = {};
  header.type = type;
  header.header_bytes = sizeof(header);
  header.body_bytes = static_cast<uint32_t>(body.size());
  std::string frame(sizeof(header), '\0');
  SetHeader(header, &frame);
  frame += body;
  Stamp(&frame);
  PostSend(frame, /*invalidates=*/0);
  if (is_server()) sums_ = setup_.peer_wants_sums;
}

void SessionPeer::SendFrames(fuzz::FuzzInput& input, FrameSubjects subjects) {
  if (sums_) subjects.frame_bytes_max -= sizeof(FrameSums);
  const bool bold = input.Below(16) == 0;
  std::vector<std::string> frames = TakeFrames(input, subjects);
  Beside beside;
  for (std::string& frame : frames) {
    const bool has_credit =
        HeaderOf<FrameHeader>(frame).type == FrameType::kGrant ||
        static_cast<int32_t>(credit_limit_ - credited_sent_) > 0;
    if (!has_credit && !bold) return;
    const bool first = &frame == &frames.front();
    const bool last = &frame == &frames.back();
    if (first && (sums_ || setup_.uses_lease_keys)) {
      beside = MakeTrue(input, &frame);
    }
    Stamp(&frame);
    TakeDamage(input, &frame);
    if (setup_.uses_trains && !sums_ && first && last) {
      TakeTrain(input, subjects, &beside, &frame);
    }
    if (sums_) AppendSums(input, last ? beside.sums : PartSums(), &frame);
    PostSend(frame, first ? beside.invalidates : 0);
  }
}

void SessionPeer::Stamp(std::string* frame) {
  auto header = HeaderOf<FrameHeader>(*frame);
  header.credit_limit = credits_ + credited_received_;
  if (grants_read_) header.flags |= kFlagGrantRead;
  if (header.type != FrameType::kGrant) ++credited_sent_;
  SetHeader(header, frame);
}

void SessionPeer::TakeTrain(fuzz::FuzzInput& input, FrameSubjects subjects,
                            Beside* beside, std::string* train) {
  const FrameType type = HeaderOf<FrameHeader>(*train).type;
  if (!IsCall(type)) return;
  // Up to one frame more than a train may have.
  for (uint32_t i = 0; i < kTrainFrames && input.Below(4) != 0; ++i) {
    subjects.type = input.Below(16) == 15 ? FrameType{0} : type;
    // A frame that is continued has no place here, and its header says so.
    std::string frame = TakeFrames(input, subjects).front();
    const size_t start = AlignFrame(train->size());
    if (start + frame.size() > subjects.frame_bytes_max) return;
    if (setup_.uses_lease_keys) {
      // A SEND can invalidate one key only.
      const Beside of_frame = MakeTrue(input, &frame);
      if (beside->invalidates == 0) beside->invalidates = of_frame.invalidates;
    }
    auto header = HeaderOf<FrameHeader>(frame);
    if (input.Below(16) != 15) {
      header.flags &= static_cast<uint8_t>(~kFlowFlags);
      SetHeader(header, &frame);
    }
    TakeDamage(input, &frame);
    train->resize(start);
    *train += frame;
    // Damage may have made it longer than any SEND.
    train->resize(std::min<size_t>(train->size(), kBufferBytes + 64));
  }
}

SessionPeer::Beside SessionPeer::MakeTrue(fuzz::FuzzInput& input,
                                          std::string* frame) {
  Beside beside;
  const auto common = HeaderOf<FrameHeader>(*frame);
  if (!is_server()) {
    if (setup_.uses_lease_keys) LendThroughWindow(frame);
    client_memory_.Note(*frame).IgnoreError();
    if (common.type == FrameType::kRequest) {
      beside.sums = SumsOf(HeaderOf<RequestHeader>(*frame));
    }
    return beside;
  }
  const bool answers = common.type == FrameType::kResponse ||
                       common.type == FrameType::kResponsePending;
  Loan* const loan =
      answers ? client_memory_.FindOpen(common.call_id) : nullptr;
  if (loan == nullptr) return beside;
  if (common.type == FrameType::kResponse) {
    beside.sums = WriteParts(HeaderOf<ResponseHeader>(*frame), *loan);
  }
  if (loan->has_key) beside.invalidates = TakeKey(input, *loan);
  loan->open = false;
  return beside;
}

void SessionPeer::LendThroughWindow(std::string* frame) {
  const auto common = HeaderOf<FrameHeader>(*frame);
  RemoteArenas::RemoteRange range;
  if (common.type == FrameType::kLease) {
    auto lease = HeaderOf<LeaseHeader>(*frame);
    if (!client_memory_.arenas().Find(lease.arena, lease.offset, lease.bytes,
                                      &range)) {
      return;
    }
    lease.rkey = Bind(range.address, lease.bytes);
    SetHeader(lease, frame);
    return;
  }
  constexpr uint8_t kWithKey = kFlagReplyLease | kFlagLeaseKey;
  if (common.type != FrameType::kRequest ||
      (common.flags & kWithKey) != kWithKey) {
    return;
  }
  const auto request = HeaderOf<RequestHeader>(*frame);
  if (!client_memory_.arenas().Find(request.reply_arena, request.reply_offset,
                                    request.reply_bytes, &range)) {
    return;
  }
  const LeaseKey key = {Bind(range.address, request.reply_bytes), 0};
  if (key.rkey != 0) {
    std::memcpy(frame->data() + sizeof(request), &key, sizeof(key));
  }
}

// Returns the key, or 0 if the device would refuse that.
uint32_t SessionPeer::Bind(uint64_t address, uint32_t bytes) {
  if (!CanPost() || !InArena(address, bytes)) return 0;
  LeaseWindow* const window = windows_.Take();
  if (window == nullptr) return 0;
  window->bound = true;
  bound_.push_back(window);
  ibv_send_wr request = {};
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window->window->get();
  request.bind_mw.rkey = window->rkey;
  request.bind_mw.bind_info = {arena_.region(), address, bytes,
                               IBV_ACCESS_REMOTE_WRITE};
  PostAsIs(request);
  return window->rkey;
}

PartSums SessionPeer::SumsOf(const RequestHeader& request) const {
  PartSums sums;
  if ((request.frame.flags & kFlagMessageInArena) != 0) {
    sums.message = SumOf(request.message_arena, request.message_offset,
                         request.message_bytes);
  }
  if ((request.frame.flags & kFlagAttachmentInArena) != 0) {
    sums.attachment = SumOf(request.attachment_arena, request.attachment_offset,
                            request.attachment_bytes);
  }
  return sums;
}

uint32_t SessionPeer::SumOf(uint16_t arena, uint32_t offset,
                            uint32_t bytes) const {
  RemoteArenas::RemoteRange range;
  if (!client_memory_.arenas().Find(arena, offset, bytes, &range) ||
      !InArena(range.address, bytes)) {
    return 0;
  }
  return Crc32c({reinterpret_cast<const uint8_t*>(range.address), bytes});
}

PartSums SessionPeer::WriteParts(const ResponseHeader& response,
                                 const Loan& loan) {
  PartSums sums;
  uint64_t offset = 0;
  if ((response.frame.flags & kFlagMessageInArena) != 0) {
    sums.message = WritePart(loan, offset, response.message_bytes);
    offset = AlignPart(response.message_bytes);
  }
  if ((response.frame.flags & kFlagAttachmentInArena) != 0) {
    sums.attachment = WritePart(loan, offset, response.attachment_bytes);
  }
  return sums;
}

uint32_t SessionPeer::WritePart(const Loan& loan, uint64_t offset,
                                uint32_t bytes) {
  if (bytes > kArenaBytes || offset + bytes > loan.bytes) return 0;
  ibv_sge element = {};
  element.addr = reinterpret_cast<uintptr_t>(arena_.data());
  element.length = bytes;
  element.lkey = arena_.lkey();
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.sg_list = &element;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = loan.address + offset;
  request.wr.rdma.rkey = loan.rkey;
  PostAsIs(request);
  return Crc32c({arena_.data(), bytes});
}

// Mostly the right one.
uint32_t SessionPeer::TakeKey(fuzz::FuzzInput& input, const Loan& loan) const {
  switch (input.Below(16)) {
    case 15:
      return 0;
    case 14:
      return loans()[input.Take<uint8_t>() % loans().size()].rkey;
    default:
      return loan.rkey;
  }
}

void SessionPeer::Count(const std::string& frame) {
  if (frame.size() < sizeof(FrameHeader)) return;
  const auto header = HeaderOf<FrameHeader>(frame);
  if (sums_ && !MayPrecedeSums(header.type)) {
    absl::Span<const uint8_t> bytes = Bytes(frame);
    FrameSums stated;
    uint32_t found = 0;
    CHECK(TakeSums(&bytes, &stated, &found));
    CHECK_EQ(stated.frame, found);
  }
  credit_limit_ = header.credit_limit;
  if (header.type == FrameType::kGrant) {
    grants_read_ = !grants_read_;
    return;
  }
  ++credited_received_;
  switch (header.type) {
    case FrameType::kReturn:
      credited_received_ += HeaderOf<ReturnHeader>(frame).credits;
      return;
    case FrameType::kWelcome: {
      const auto options = DecodeOptions(Bytes(frame).subspan(sizeof(header)));
      CHECK(options.ok());
      sums_ = FindOption(*options, kOptionChecksum) != nullptr;
      return;
    }
    default:
      NoteCalls(frame);
  }
}

void SessionPeer::NoteCalls(const std::string& sent) {
  const bool may_be_train =
      setup_.uses_trains && !sums_ && IsCall(HeaderOf<FrameHeader>(sent).type);
  uint32_t frames = 0;
  size_t at = 0;
  while (at < sent.size()) {
    const std::string rest = sent.substr(at);
    const size_t bytes =
        may_be_train ? std::min(FirstFrameBytes(Bytes(rest)), rest.size())
                     : rest.size();
    const std::string frame = rest.substr(0, bytes);
    if (++frames > 1) {
      CHECK_LE(frames, kTrainFrames);
      CHECK(TrainFrameError(Bytes(frame), /*plain=*/false) == nullptr);
    }
    const auto header = HeaderOf<FrameHeader>(frame);
    if (header.type == FrameType::kRequest) {
      call_ids_.push_back(header.call_id);
    }
    if (is_server()) CHECK(client_memory_.Note(frame).ok());
    at = AlignFrame(at + bytes);
  }
}

}  // namespace verbena::transport
