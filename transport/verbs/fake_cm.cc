#include "transport/verbs/fake_cm.h"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/socket_address.h"

namespace verbena::transport {
namespace {

// Notes a call, and fails with the error that the test has set in the id, if
// any.
int Call(rdma_cm_id* id, std::string call) {
  FakeId& fake = FakeId::From(id);
  // Noted even if the call then fails.
  fake.calls.push_back(std::move(call));
  if (fake.error == 0) return 0;
  errno = fake.error;
  return -1;
}

std::string Describe(const rdma_conn_param& parameters) {
  return absl::StrCat(
      absl::string_view(static_cast<const char*>(parameters.private_data),
                        parameters.private_data_len),
      " ", parameters.responder_resources, " ", parameters.initiator_depth, " ",
      parameters.retry_count, " ", parameters.rnr_retry_count);
}

std::string Describe(const sockaddr* address) {
  return base::SocketAddress::FromSockaddr(address).ToString();
}

rdma_event_channel* CreateEventChannel() {
  auto* channel = new FakeChannel();
  // Readable while there may be events, as the descriptor of the kernel is.
  channel->fd = ::eventfd(0, EFD_CLOEXEC);
  return channel;
}

void DestroyEventChannel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete &FakeChannel::From(channel);
}

// An empty channel says EAGAIN, as a nonblocking one does.
int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  FakeChannel& fake = FakeChannel::From(channel);
  errno = fake.error != 0 ? fake.error : EAGAIN;
  if (fake.error != 0 || fake.events.empty()) return -1;
  *event = new rdma_cm_event(fake.events.front());
  fake.events.pop_front();
  ++fake.unacked;
  return 0;
}

// The event is gone afterwards, as with librdmacm.
int AckCmEvent(rdma_cm_event* event) {
  --FakeChannel::From(event->id->channel).unacked;
  delete event;
  return 0;
}

int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space) {
  auto* fake = new FakeId();
  fake->channel = channel;
  fake->context = context;
  fake->ps = port_space;
  *id = fake;
  return 0;
}

// Never fails, not even if the id's error is set.
int DestroyId(rdma_cm_id* id) {
  delete &FakeId::From(id);
  return 0;
}

// Options are ints or single bytes, so a number shows their value.
int SetOption(rdma_cm_id* id, int level, int option, void* value,
              size_t length) {
  int number = 0;
  std::memcpy(&number, value, length);
  return Call(id, absl::StrCat("set_option ", level, " ", option, " ", number,
                               " of ", length, " bytes"));
}

// Each entry notes its name and arguments as text in the id, and fails with the
// id's error if a test has set one.
CmOps FakeOps() {
  return {
      .accept =
          [](rdma_cm_id* id, rdma_conn_param* parameters) {
            return Call(id, absl::StrCat("accept ", Describe(*parameters)));
          },
      .ack_cm_event = AckCmEvent,
      .bind_addr =
          [](rdma_cm_id* id, sockaddr* address) {
            return Call(id, absl::StrCat("bind_addr ", Describe(address)));
          },
      .connect =
          [](rdma_cm_id* id, rdma_conn_param* parameters) {
            return Call(id, absl::StrCat("connect ", Describe(*parameters)));
          },
      .create_event_channel = CreateEventChannel,
      .create_id = CreateId,
      .create_qp = [](rdma_cm_id* id, ibv_pd*,
                      ibv_qp_init_attr*) { return Call(id, "create_qp"); },
      .destroy_event_channel = DestroyEventChannel,
      .destroy_id = DestroyId,
      .destroy_qp =
          [](rdma_cm_id* id) {
            id->qp = nullptr;
            FakeId::From(id).calls.push_back("destroy_qp");
          },
      .disconnect = [](rdma_cm_id* id) { return Call(id, "disconnect"); },
      .get_cm_event = GetCmEvent,
      .get_src_port = [](rdma_cm_id*) { return htons(50051); },
      .listen =
          [](rdma_cm_id* id, int backlog) {
            return Call(id, absl::StrCat("listen ", backlog));
          },
      .migrate_id =
          [](rdma_cm_id* id, rdma_event_channel* channel) {
            id->channel = channel;
            return Call(id, "migrate_id");
          },
      .reject =
          [](rdma_cm_id* id, const void* data, uint8_t length) {
            return Call(
                id, absl::StrCat("reject ",
                                 absl::string_view(
                                     static_cast<const char*>(data), length)));
          },
      .resolve_addr =
          [](rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
            return Call(id, absl::StrCat("resolve_addr ", Describe(from), " ",
                                         Describe(to), " ", timeout_ms));
          },
      .resolve_route =
          [](rdma_cm_id* id, int timeout_ms) {
            return Call(id, absl::StrCat("resolve_route ", timeout_ms));
          },
      .set_option = SetOption,
  };
}

// Fails as librdmacm does on a machine without RDMA: see SystemProvider().
CmOps AbsentOps() {
  CmOps ops = FakeOps();
  ops.create_event_channel = []() -> rdma_event_channel* {
    errno = ENODEV;
    return nullptr;
  };
  ops.create_id = [](rdma_event_channel*, rdma_cm_id**, void*,
                     rdma_port_space) {
    errno = ENODEV;
    return -1;
  };
  return ops;
}

}  // namespace

// The descriptor stays readable: Poll() finds out whether there is an event.
void FakeChannel::Push(const rdma_cm_event& event) {
  events.push_back(event);
  ::eventfd_write(fd, 1);
}

// Has no verbs, because nothing opens a device through it.
const Provider& FakeProvider() {
  static const Provider kProvider = {
      .name = "fake", .verbs = {}, .cm = FakeOps()};
  return kProvider;
}

const Provider& AbsentProvider() {
  static const Provider kProvider = {
      .name = "absent", .verbs = {}, .cm = AbsentOps()};
  return kProvider;
}

}  // namespace verbena::transport
