// Session, the base of the fuzzers of client and server sessions.

#ifndef VERBENA_TESTS_FUZZ_SESSION_H_
#define VERBENA_TESTS_FUZZ_SESSION_H_

#include <chrono>
#include <cstdint>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/session_peer.h"
#include "transport/soft/simulation.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Plays one input: a connection between what is fuzzed and the peer. The first
// byte of the input is a SessionSetup. For one thread.
class Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Run() {
    if (Connect()) {
      while (!input_.empty()) {
        Step();
        Turn();
      }
    }
    End();
  }

 protected:
  Session(soft::Simulation& simulation, fuzz::FuzzInput input)
      : input_(input),
        setup_(input_.Take<uint8_t>()),
        peer_(setup_),
        simulation_(simulation) {}
  ~Session() = default;

  // Connects. Returns false if there is no connection to go on with.
  virtual bool Connect() = 0;
  // Does the next step of the input.
  virtual void Step() = 0;
  // Ends the connection, and checks that nothing is left of it.
  virtual void End() = 0;
  // Runs the fuzzed side once.
  virtual void TurnSubject() = 0;

  // Runs the device, the fuzzed side and the peer in turn, `times` times.
  void Turn(int times = 1) {
    for (; times > 0; --times) {
      simulation_.RunFor(std::chrono::microseconds(2));
      TurnSubject();
      peer_.Poll();
    }
  }

  // Has the peer send its HELLO or WELCOME, unless the input leaves it out.
  void Greet(FrameType type) {
    if (input_.Below(16) == 0) return;
    peer_.Greet(type);
    Turn(3);
  }

  fuzz::FuzzInput input_;
  const SessionSetup setup_;
  SessionPeer peer_;

 private:
  soft::Simulation& simulation_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TESTS_FUZZ_SESSION_H_
