// A server's words as a terminal may be given them.

#ifndef VERBENA_TOOLS_VERBENA_SHOWN_TEXT_H_
#define VERBENA_TOOLS_VERBENA_SHOWN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace verbena::tool {

// Returns `text` with each byte escaped, as \x1b, that a terminal might obey
// or that hides others: control characters of one byte (C0, DEL) and of two
// (C1), marks that turn the direction of writing, line separators, and what is
// no UTF-8. Newlines stay.
std::string ShownText(absl::string_view text);

// As ShownText(), for text that is shown in one line: escapes newlines, too,
// with which a server could write lines of its own.
std::string ShownLine(absl::string_view text);

}  // namespace verbena::tool

#endif  // VERBENA_TOOLS_VERBENA_SHOWN_TEXT_H_
