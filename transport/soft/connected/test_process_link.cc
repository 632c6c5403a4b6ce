#include "transport/soft/connected/test_process_link.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tests/testing/child_process.h"
#include "transport/base/check.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/link/link.h"

namespace verbena::soft {
namespace {

constexpr char kChildMark[] = "--child";
// The number of its socket in the child.
constexpr int kChildSocket = 3;

// Sends `greeting`, with `fd` beside it unless it is negative.
void SendGreeting(int socket_fd, const TestGreeting& greeting, int fd) {
  iovec part = {const_cast<TestGreeting*>(&greeting), sizeof(greeting)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  CHECK_EQ(sendmsg(socket_fd, &message, 0),
           static_cast<ssize_t>(sizeof(greeting)));
}

// Returns the descriptor that came with it, or -1.
int ReceiveGreeting(int socket_fd, TestGreeting& greeting) {
  iovec part = {&greeting, sizeof(greeting)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  CHECK_EQ(recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC),
           static_cast<ssize_t>(sizeof(greeting)));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return -1;
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

}  // namespace

void TestProcessLink::RunIfChild(int argc, char** argv,
                                 const Children& children) {
  if (argc != 4 || std::strcmp(argv[1], kChildMark) != 0) return;
  int result;
  {
    TestProcessLink link(std::stoi(argv[3]), 0);
    result = children.at(argv[2])(link);
  }
  std::exit(result);
}

TestProcessLink TestProcessLink::Start(const std::string& child) {
  int sockets[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  const pid_t pid = testing_support::Spawn(
      {"/proc/self/exe", kChildMark, child, std::to_string(kChildSocket)},
      {{sockets[1], kChildSocket}});
  close(sockets[1]);
  return TestProcessLink(sockets[0], pid);
}

TestProcessLink::TestProcessLink(TestProcessLink&& other) noexcept
    : socket_fd_(std::exchange(other.socket_fd_, -1)),
      child_(std::exchange(other.child_, 0)),
      end_(std::exchange(other.end_, nullptr)) {
  CHECK(end_ == nullptr) << "moved after Connect";
}

TestProcessLink::~TestProcessLink() {
  Disconnect();
  if (socket_fd_ >= 0) close(socket_fd_);
  if (child_ != 0) Kill();
}

void TestProcessLink::Disconnect() {
  if (end_ == nullptr) return;
  SoftDevice::Get().engine().Unwatch(socket_fd_);
  ConnectedQueuePair::From(end_->qp)->DetachLink();
  end_ = nullptr;
}

TestGreeting TestProcessLink::Connect(TestEnd& end) {
  TestGreeting own = {end.qp->qp_num, end.mr->rkey, end.Address(0)};
  TestGreeting peer;
  ConnectedQueuePair& qp = *ConnectedQueuePair::From(end.qp);
  if (child_ != 0) {
    absl::StatusOr<LinkMemory> memory = LinkMemory::Create();
    CHECK(memory.ok()) << memory.status();
    SendGreeting(socket_fd_, own, memory->fd());
    CHECK_EQ(ReceiveGreeting(socket_fd_, peer), -1);
    qp.AttachLink(*std::move(memory), LinkSide::kFirst, socket_fd_);
  } else {
    const int fd = ReceiveGreeting(socket_fd_, peer);
    absl::StatusOr<LinkMemory> memory = LinkMemory::Map(fd);
    CHECK(memory.ok()) << memory.status();
    close(fd);
    qp.AttachLink(*std::move(memory), LinkSide::kSecond, socket_fd_);
    SendGreeting(socket_fd_, own, -1);
  }
  end_ = &end;
  end.Connect(peer.qp_num);
  SoftDevice::Get().engine().Watch(socket_fd_, [this] { OnReadable(); });
  return peer;
}

TestGreeting TestProcessLink::Exchange(const TestEnd& end) {
  TestGreeting peer;
  SendGreeting(socket_fd_, {end.qp->qp_num, end.mr->rkey, end.Address(0)}, -1);
  CHECK_EQ(ReceiveGreeting(socket_fd_, peer), -1);
  return peer;
}

void TestProcessLink::OnReadable() {
  unsigned char message;
  const ssize_t got = recv(socket_fd_, &message, sizeof(message), MSG_DONTWAIT);
  if (got > 0) {
    ConnectedQueuePair::From(end_->qp)->OnDoorbell();
  } else if (got == 0 || errno != EAGAIN) {
    SoftDevice::Get().engine().Unwatch(socket_fd_);
    ConnectedQueuePair::From(end_->qp)->OnPeerGone();
  }
}

void TestProcessLink::Kill() {
  kill(child_, SIGKILL);
  WaitExit();
}

int TestProcessLink::WaitExit() {
  int status = 0;
  const pid_t child = std::exchange(child_, 0);
  CHECK_EQ(waitpid(child, &status, 0), child) << "errno " << errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace verbena::soft
