// The command line of the programs that explore models.
//
//   PROGRAM                      small bounds, as a test
//   PROGRAM --wide               wider ones, which take minutes
//   PROGRAM --wide --frames=4    the same but for this one
//   PROGRAM --traces             with the shortest way to each broken rule

#ifndef VERBENA_TESTS_MODEL_COMMAND_LINE_H_
#define VERBENA_TESTS_MODEL_COMMAND_LINE_H_

#include <cstdint>

namespace verbena::model {

// Returns --NAME=N of the command line if it is there, else `wide` with --wide,
// else `usual`.
uint8_t Bound(const char* name, uint8_t usual, uint8_t wide);

bool ShowsTraces();

// Reads what GoogleTest has left of the command line. Returns whether it is
// right; else says why not.
bool ReadCommandLine(int argc, char** argv);
// Whether Bound() has asked for each bound that was given; else says which not.
bool AllBoundsUsed();

}  // namespace verbena::model

#endif  // VERBENA_TESTS_MODEL_COMMAND_LINE_H_
