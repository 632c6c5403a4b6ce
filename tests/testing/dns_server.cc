#include "tests/testing/dns_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace verbena::testing_support {
namespace {

// The longest packet, by TCP.
constexpr size_t kPacketBytesMax = 65535;

constexpr char kDnsmasq[] = "/usr/sbin/dnsmasq";

void Send(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // The other side has gone.
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace

DnsSockets::DnsSockets() {
  // The port that UDP gets may be taken in TCP.
  do {
    address = base::SocketAddress::Loopback(AF_INET, 0);
    datagrams = base::UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    listener = base::UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(bind(datagrams.get(), address.get(), address.size()) == 0);
    socklen_t size = address.size();
    CHECK(getsockname(datagrams.get(), address.mutable_get(), &size) == 0);
  } while (bind(listener.get(), address.get(), address.size()) != 0);
}

DnsServer::DnsServer(Answer answer) : answer_(std::move(answer)) {
  DnsSockets sockets;
  datagrams_ = std::move(sockets.datagrams);
  listener_ = std::move(sockets.listener);
  address_ = sockets.address.ToString();
  CHECK(listen(listener_.get(), /*backlog=*/1024) == 0);
  end_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC));
  CHECK(thread_.Start([this] { Run(); }).ok());
}

DnsServer::~DnsServer() {
  const uint64_t one = 1;
  CHECK(write(end_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.Join();
}

int DnsServer::queries(const std::string& name) const {
  const base::MutexLock lock(mutex_);
  const auto found = queries_.find(name);
  return found == queries_.end() ? 0 : found->second;
}

void DnsServer::AwaitQueries(const std::string& name, int count) const {
  const base::MutexLock lock(mutex_);
  for (;;) {
    const auto found = queries_.find(name);
    if (found != queries_.end() && found->second >= count) return;
    asked_.Wait(mutex_);
  }
}

void DnsServer::Run() {
  for (;;) {
    std::vector<pollfd> waits = {{end_.get(), POLLIN, 0},
                                 {datagrams_.get(), POLLIN, 0},
                                 {listener_.get(), POLLIN, 0}};
    const size_t fixed = waits.size();
    for (const Stream& each : streams_) {
      waits.push_back({each.fd.get(), POLLIN, 0});
    }
    if (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) continue;
    if (waits[0].revents != 0) return;
    if (waits[1].revents != 0) ServeDatagram();
    for (size_t i = waits.size(); i-- > fixed;) {
      if (waits[i].revents != 0 && !ServeStream(streams_[i - fixed])) {
        streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(i - fixed));
      }
    }
    if (waits[2].revents != 0) {
      base::UniqueFd fd(
          accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (fd.valid()) streams_.push_back({.fd = std::move(fd), .input = {}});
    }
  }
}

std::vector<std::string> DnsServer::AnswersTo(absl::string_view packet,
                                              bool tcp) {
  auto query = ReadDnsQuery(packet);
  if (!query.has_value()) return {};
  query->tcp = tcp;
  {
    const base::MutexLock lock(mutex_);
    ++queries_[query->name];
    asked_.NotifyAll();
  }
  return answer_(*query);
}

void DnsServer::ServeDatagram() {
  std::array<char, kPacketBytesMax> packet;
  auto from = base::SocketAddress::Any(AF_INET, 0);
  socklen_t size = from.size();
  const ssize_t received =
      recvfrom(datagrams_.get(), packet.data(), packet.size(), 0,
               from.mutable_get(), &size);
  if (received < 0) return;  // An earlier answer has come back.
  for (const std::string& each :
       AnswersTo({packet.data(), static_cast<size_t>(received)}, false)) {
    sendto(datagrams_.get(), each.data(), each.size(), 0, from.get(),
           from.size());
  }
}

bool DnsServer::ServeStream(Stream& stream) {
  std::array<char, kPacketBytesMax> bytes;
  const ssize_t received = recv(stream.fd.get(), bytes.data(), bytes.size(), 0);
  if (received <= 0) return false;
  stream.input.append(bytes.data(), static_cast<size_t>(received));
  while (stream.input.size() >= 2) {
    const size_t length = static_cast<uint8_t>(stream.input[0]) * size_t{256} +
                          static_cast<uint8_t>(stream.input[1]);
    if (stream.input.size() < 2 + length) break;
    for (const std::string& each :
         AnswersTo(stream.input.substr(2, length), true)) {
      const std::string size = {static_cast<char>(each.size() >> 8),
                                static_cast<char>(each.size())};
      Send(stream.fd.get(), size + each);
    }
    stream.input.erase(0, 2 + length);
  }
  return true;
}

Dnsmasq::Dnsmasq(const std::vector<std::string>& options,
                 const std::string& hosts)
    : hosts_path_(absl::StrCat(::testing::TempDir(), "/hosts-", getpid())) {
  std::ofstream(hosts_path_) << hosts;
  // Somebody may take the port before dnsmasq has it.
  do {
    const base::SocketAddress address = DnsSockets().address;
    address_ = address.ToString();
    // The shell joins both outputs.
    std::vector<std::string> command = {"/bin/sh",
                                        "-c",
                                        "exec \"$0\" \"$@\" 2>&1",
                                        kDnsmasq,
                                        "--keep-in-foreground",
                                        "--log-facility=-",
                                        "--conf-file=/dev/null",
                                        "--pid-file=",
                                        "--no-resolv",
                                        "--no-hosts",
                                        "--bind-interfaces",
                                        "--listen-address=127.0.0.1",
                                        absl::StrCat("--port=", address.port()),
                                        "--addn-hosts=" + hosts_path_};
    // As root it would become another user, who may not read the file.
    if (geteuid() == 0) {
      command.insert(command.end(), {"--user=root", "--group=root"});
    }
    command.insert(command.end(), options.begin(), options.end());
    process_ = std::make_unique<ChildProcess>(command);
  } while (!AwaitLine(hosts_path_));
}

Dnsmasq::~Dnsmasq() { std::remove(hosts_path_.c_str()); }

void Dnsmasq::RewriteHosts(const std::string& hosts) {
  std::ofstream(hosts_path_) << hosts;
  process_->Signal(SIGHUP);
  CHECK(AwaitLine(hosts_path_)) << "dnsmasq has ended";
}

bool Dnsmasq::AwaitLine(absl::string_view text) {
  for (;;) {
    const std::string line = process_->ReadLine();
    CHECK(!absl::StrContains(line, "not found")) << line;
    if (line.empty() || absl::StrContains(line, "failed")) {
      CHECK(absl::StrContains(line, "in use")) << line;
      return false;
    }
    if (absl::StrContains(line, text)) return true;
  }
}

}  // namespace verbena::testing_support
