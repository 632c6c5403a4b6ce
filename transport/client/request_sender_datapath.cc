#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/client/request_sender.h"
#include "transport/client/request_writer.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Takes the slot last: until there is a frame, nothing has to be undone.
bool RequestSender::SendSmall(ClientCall* call) {
  if (ABSL_PREDICT_FALSE(shared_.slots.full())) return false;
  const ClientCall::Request& request = call->request();
  const uint32_t bytes = static_cast<uint32_t>(
      sizeof(RequestHeader) + request.metadata_bytes + request.message_bytes);
  uint8_t* const out = connection_.BeginCall(bytes, sent_.Reserve());
  if (ABSL_PREDICT_FALSE(out == nullptr)) return false;
  const uint32_t call_id = sent_.Add(call);
  // Read now, because the call may be gone once the frame is sent.
  MessageStream* const stream = call->stream();
  WriteSmallRequest(*call, call_id, connection_.poller().now_ns(), out);
  connection_.SendCall(bytes);
  // Sending may have lost the connection, and that ended the call.
  if (ABSL_PREDICT_FALSE(stream != nullptr) && connection_.usable()) {
    streams_.Open(stream, call_id);
  }
  return true;
}

// Chooses the way by the lengths: in one REQUEST, in a continued one, or with
// parts in the arenas, which the server must know of first.
bool RequestSender::Send(ClientCall* call) {
  const ClientCall::Request& request = call->request();
  if (FitsFrame(request)) return SendSmall(call);
  const uint32_t reserve = sent_.Reserve();
  if (shared_.slots.full() || !connection_.CanSend(reserve)) return false;
  ClientArenas& arenas = shared_.arenas;
  Placement placement = Place(request);
  // A little more than a frame goes as several, if it can now: cheaper than a
  // READ, and it takes no memory of the arenas.
  bool continued = !placement.all_inline() &&
                   connection_.CanSendContinued(
                       RequestFrameBytes(request, Placement(),
                                         arenas.lends_through_windows()),
                       reserve);
  if (continued) placement = Placement();
  CallMemory& memory = shared_.slots.next().memory;
  bool ended = false;
  if (!Allocate(call, placement, &memory, &ended)) return ended;
  // The server must know of an arena before a REQUEST names it. What tells it
  // may take the credits that there were, so they are looked at once more.
  bool ready = memory.empty() || arenas.Announce(connection_);
  bool has_key = arenas.lends_through_windows() && !memory.reply.empty();
  if (ready && has_key &&
      !Lend(RequestFrameBytes(request, placement, /*has_lease_key=*/true),
            reserve, &memory)) {
    // Without a lease the call only takes a round trip more.
    memory.reply.Reset();
    has_key = false;
  }
  const uint32_t bytes = RequestFrameBytes(request, placement, has_key);
  // Without a key it may fit.
  continued = continued && bytes > connection_.SendRoom();
  uint8_t* out = nullptr;
  ready =
      ready &&
      (continued ? connection_.CanSendContinued(bytes, reserve)
                 : (out = connection_.BeginFrame(bytes, reserve)) != nullptr);
  if (!ready) {
    arenas.Free(connection_.poller(), &memory);
    return false;
  }
  const uint32_t call_id = sent_.Add(call);
  memory.Note(connection_.poller());
  const int64_t now_ns = connection_.poller().now_ns();
  PartGuard guard = {.wants_sums = connection_.expects_sums(),
                     .sealer = connection_.sealer()};
  if (continued) {
    const Buffer frame = arenas.AllocateOwn(bytes);
    WriteRequest(*call, call_id, now_ns, placement, memory, frame.data(),
                 guard);
    connection_.SendContinued(frame.span());
    return true;
  }
  if (guard.sealer != nullptr && !placement.all_inline()) {
    guard.first_chunk = connection_.TakeChunks(SealChunksOf(
        placement, request.message_bytes, request.attachment.size()));
  }
  WriteRequest(*call, call_id, now_ns, placement, memory, out, guard);
  memory.plain.Reset();
  connection_.send_queue().set_first_chunk(guard.first_chunk);
  connection_.Send(bytes, guard.sums);
  return true;
}

bool RequestSender::Allocate(ClientCall* call, Placement placement,
                             CallMemory* memory, bool* ended) {
  const ClientCall::Request& request = call->request();
  absl::Status failed;
  if (shared_.arenas.Allocate(request, placement, memory, &failed)) return true;
  shared_.arenas.Free(connection_.poller(), memory);
  // A call that waits for memory which no other call will give back would wait
  // for ever.
  if (absl::IsUnavailable(failed)) failed = sent_.MemoryWillComeBack();
  *ended = !failed.ok();
  if (*ended) {
    // The server forgets the metadata that it has of the call.
    if (!request.long_metadata.empty()) shared_.slots.RenewNext();
    call->OnFailed(failed);
  }
  return false;
}

// Checks the room for binding and REQUEST together. A lease that was bound for
// a REQUEST that does not go could not be freed.
bool RequestSender::Lend(uint64_t frame_bytes, uint32_t spare_credits,
                         CallMemory* memory) {
  const uint32_t frames =
      frame_bytes <= connection_.SendRoom()
          ? 1
          : static_cast<uint32_t>(connection_.SendsFor(frame_bytes));
  return connection_.CanSend(spare_credits + frames - 1) &&
         connection_.send_queue().HasRoomFor(frames, /*without_buffer=*/1) &&
         shared_.arenas.Lend(connection_, memory);
}

Placement RequestSender::Place(const ClientCall::Request& request) const {
  // Metadata alone always fit.
  CHECK_LE(request.metadata_bytes, kFrameMetadataBytes);
  // Room is kept for the key of a lease, because the lease is allocated later.
  const uint64_t room =
      connection_.SendRoom() - sizeof(RequestHeader) - request.metadata_bytes -
      (shared_.arenas.lends_through_windows() ? sizeof(LeaseKey) : 0);
  return PlaceParts(room, request.message_bytes, request.attachment.size());
}

void RequestSender::Wait(ClientCall* call) {
  call->link().slot = ClientCall::Link::kQueued;
  if (shared_.slots.full()) connection_.counters().slot_waits.Add();
  shared_.LineOf(*call).PushBack(call);
  shared_.NoteDeadline(call->request().deadline);
  connection_.NoteWaiting();
}

void RequestSender::SendQueued(base::IntrusiveList<ClientCall>* line) {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that ends all that stand in the queue.
  while (!line->empty() && connection_.usable()) {
    ClientCall* const call = line->front();
    line->Remove(call);
    call->link().slot = ClientCall::Link::kIdle;
    if (SendAny(call)) continue;
    if (!connection_.failure().ok()) {
      DropMetadata(call);
      call->OnUnsent(connection_.failure());
      return;
    }
    call->link().slot = ClientCall::Link::kQueued;
    // The call keeps its place: others would pass it by for ever.
    line->PushFront(call);
    return;
  }
}

}  // namespace verbena::transport
