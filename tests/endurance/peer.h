// A server or a client as a process of its own, which does what it is told and
// says what it holds. It is the program of the test, once more.

#ifndef VERBENA_TESTS_ENDURANCE_PEER_H_
#define VERBENA_TESTS_ENDURANCE_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/endurance/figures.h"
#include "tests/testing/child_process.h"

namespace verbena::endurance {

// The test's side. All methods wait for an answer of the process, for two
// minutes at most: then the test fails and the process is dead. For one thread.
class Peer {
 public:
  // Serves at `address` until it is killed or the Peer is destroyed. Null, with
  // the reason in `*problem`, if it could not listen there.
  static std::unique_ptr<Peer> StartServer(const std::string& address,
                                           std::string* problem);
  static std::unique_ptr<Peer> StartClient(const std::string& target);

  // Where a server listens.
  const std::string& address() const { return address_; }
  // The kernel's device or "soft", on which a server listens.
  const std::string& device() const { return device_; }

  // Has the client make calls from now on, drawn from `seed`.
  void StartLoad(uint64_t seed);
  // Has the client wait for its open calls and drop its channels.
  void StopLoad() { Tell("stop"); }
  // Waits until another call of the client has succeeded. The test fails if
  // none has in a minute.
  void AwaitSuccess() { Tell("await"); }

  // Its footprint; of a server also "connections", and the registered memory
  // for frames and large parts of calls, "frames" and "bulk"; of a client also
  // what its tally says, open calls included.
  Figures Report() { return Ask("report"); }
  // As Report(), after free memory was given back to the system.
  Figures TrimAndReport() { return Ask("trim"); }

  // Kills it. The test fails if it had ended before.
  void Kill();
  // Has it end by itself, and the test fail if it does not do so well.
  void End();

 private:
  Peer(absl::string_view role, const std::string& address)
      : process_({"/proc/self/exe", absl::StrCat(role, address)}) {}
  Figures Ask(absl::string_view question);
  void Tell(absl::string_view command);
  void ExpectExit(int exit_code);

  testing_support::ChildProcess process_;
  std::string address_;
  std::string device_;
};

// The process's side: if the command line says so, this is a peer until it is
// to end, and `*exit_code` what main() shall return. To be called before there
// are threads.
bool BePeer(int argc, char** argv, int* exit_code);

}  // namespace verbena::endurance

#endif  // VERBENA_TESTS_ENDURANCE_PEER_H_
