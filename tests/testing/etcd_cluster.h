// etcd as processes of a test, spoken to by its HTTP interface.

#ifndef VERBENA_TESTS_TESTING_ETCD_CLUSTER_H_
#define VERBENA_TESTS_TESTING_ETCD_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"
#include "tests/testing/child_process.h"

namespace verbena::testing_support {

// Members on free ports of 127.0.0.1, with data in a folder of their own. For
// one thread.
class EtcdCluster {
 public:
  using Json = google::protobuf::Struct;
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  enum class Tls { kOff, kOn };

  // Returns when each member serves. `options` are those of etcd.
  explicit EtcdCluster(size_t members = 1,
                       std::vector<std::string> options = {},
                       Tls tls = Tls::kOff);
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;
  ~EtcdCluster();

  // "127.0.0.1:port" of a member, and those of all, with commas between.
  const std::string& address(size_t member = 0) const {
    return members_[member].address;
  }
  // With Tls::kOn: where it wants to see `certificate`, too.
  const std::string& tls_address(size_t member = 0) const {
    return members_[member].tls_address;
  }
  // PEM texts. The certificate is its own authority, and that of the members.
  std::string certificate() const { return ReadFile("certificate.pem"); }
  std::string private_key() const { return ReadFile("key.pem"); }
  std::vector<std::string> addresses() const;
  std::string authority() const;

  // These ask any member that runs, until one has done it.
  void Put(const std::string& key, const std::string& value);
  // In one transaction.
  void PutAll(const Pairs& pairs);
  void Delete(const std::string& key);
  // The value, or "" if there is no such key.
  std::string Get(const std::string& key);
  // Forgets the history up to now.
  void Compact();
  void RevokeLeases();
  // Has etcd ask for this user from now on, who may do all.
  void RequireUser(const std::string& user, const std::string& password);
  size_t Leader();

  // The process is killed, and its data stays.
  void Kill(size_t member);
  // Returns when the member that was killed serves again.
  void Restart(size_t member);
  // As if its host had lost power: it is silent.
  void Freeze(size_t member);
  void Thaw(size_t member);

 private:
  struct Member {
    std::string name;
    std::string address;
    std::string tls_address;  // Empty without TLS.
    std::string peer_url;
    std::unique_ptr<ChildProcess> process;
    bool frozen = false;
  };

  std::string ReadFile(const std::string& name) const;
  void MakeCertificate();
  // Returns false if a member has ended: somebody else has its port.
  bool StartAll();
  void Start(Member& member);
  bool AwaitService(Member& member);
  // Posts to any member that serves.
  Json Do(const std::string& path, const std::string& body);

  const std::vector<std::string> options_;
  const Tls tls_;
  std::string folder_;
  std::vector<Member> members_;
  std::string token_;  // The proof of the user.
};

// Posts `body` to http://`address``path`. The error says what went wrong.
absl::StatusOr<google::protobuf::Struct> PostJson(const std::string& address,
                                                  const std::string& path,
                                                  const std::string& body,
                                                  const std::string& token);

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_ETCD_CLUSTER_H_
