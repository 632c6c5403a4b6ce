// Programs of ours, run by a test as a user would run them.

#ifndef VERBENA_TESTS_TESTING_CHILD_PROCESS_H_
#define VERBENA_TESTS_TESTING_CHILD_PROCESS_H_

#include <string>

#include "tools/child/child_process.h"  // IWYU pragma: export

namespace verbena::testing_support {

using tools::ChildProcess;
using tools::Ran;
using tools::RunToEnd;
using tools::Spawn;

// The address without port at which tests that use a network listen: the
// environment variable VERBENA_TEST_ADDRESS, else "127.0.0.1".
std::string TestAddress();

// The word after `before` in `text`, up to a space or the end; empty when
// `before` is not there.
std::string WordAfter(const std::string& before, const std::string& text);

// Waits, but not for ever, until the process `pid` has a child. Returns whether
// it has one.
bool HasChild(pid_t pid);

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_CHILD_PROCESS_H_
