// DNS servers for tests: a thread that answers as the test says, and dnsmasq.

#ifndef VERBENA_TESTS_TESTING_DNS_SERVER_H_
#define VERBENA_TESTS_TESTING_DNS_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "tests/testing/child_process.h"
#include "tests/testing/dns_packet.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"

namespace verbena::testing_support {

// Listens on a free port of 127.0.0.1, UDP and TCP.
class DnsServer {
 public:
  // Returns the packets to send back, in order; none to stay silent. Called by
  // the server's thread.
  using Answer = std::function<std::vector<std::string>(const DnsQuery&)>;

  explicit DnsServer(Answer answer);
  ~DnsServer();

  const std::string& address() const { return address_; }
  // Questions for that name so far.
  int queries(const std::string& name) const;
  // Waits until there were so many questions for it.
  void AwaitQueries(const std::string& name, int count) const;

 private:
  struct Stream {
    base::UniqueFd fd;
    std::string input;
  };

  void Run();
  std::vector<std::string> AnswersTo(absl::string_view packet, bool tcp);
  void ServeDatagram();
  // Returns false when the stream has ended.
  bool ServeStream(Stream& stream);

  const Answer answer_;
  std::string address_;
  base::UniqueFd datagrams_;
  base::UniqueFd listener_;
  base::UniqueFd end_;
  std::vector<Stream> streams_;  // Thread only.

  mutable base::Mutex mutex_;
  mutable base::CondVar asked_;
  std::map<std::string, int> queries_ ABSL_GUARDED_BY(mutex_);
  base::ThreadGroup thread_{"dns-server"};
};

// A bound pair of UDP and TCP sockets with the same free port of 127.0.0.1.
struct DnsSockets {
  DnsSockets();

  base::UniqueFd datagrams;
  base::UniqueFd listener;
  base::SocketAddress address;
};

// Runs dnsmasq on a free port of 127.0.0.1. It asks no other server. A process
// has at most one at a time.
class Dnsmasq {
 public:
  // `options` are dnsmasq's. `hosts` is the text of a file like /etc/hosts.
  explicit Dnsmasq(const std::vector<std::string>& options,
                   const std::string& hosts = "");
  ~Dnsmasq();

  const std::string& address() const { return address_; }
  // Returns when dnsmasq has read the new text.
  void RewriteHosts(const std::string& hosts);

 private:
  // Reads what dnsmasq logs until a line has `text`. Returns false if it ends.
  bool AwaitLine(absl::string_view text);

  const std::string hosts_path_;
  std::string address_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_DNS_SERVER_H_
